"""MetaSchedule's two record files, kept in line with the run's trials. No TVM here.

`database_workload.json` has a line `[hash, module]` for each task. `database_tuning_record.json` has a line
`[workload index, [trace, run_secs, target, args_info]]` for each trial, so that line n is the run's n-th trial.
"""

from __future__ import annotations

import json
import re
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import BinaryIO, NamedTuple

from tuning.beneath import open_file

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"
CONTINUED = "continued"
"""Folder in a run's folder that has both files of the run that it continues."""
FAILED_RUN_SECS = 1e10
"""The only `run_secs` that MetaSchedule writes for a failed trial."""
LOST = "[0,[[[],[]],[10000000000],null,null]]"
"""Stands in for a lost record. Its trace is empty, so MetaSchedule ignores it as invalid."""
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class RecordLine:
    """One line of the record file. `workload` is a line of the workload file, counted from 0."""

    workload: int
    latency_s: float | None
    repeats: int
    """The number of `run_secs`. It exceeds the run's `repeat` if the measurement was short."""
    lost: bool


class BestRecord(NamedTuple):
    """One of the best records of a workload, as self-contained JSON."""

    latency_s: float
    trial: int
    text: str


def repair(work_dir: Path) -> list[str]:
    """Drop an incomplete last line, which a killed process may leave in either file. Returns a message for each repair.

    The trial of an incomplete line was never reported: its event is sent after the whole line was written.
    """
    return [message for name in (WORKLOADS, RECORDS) if (message := _repair(work_dir / name))]


def _repair(path: Path) -> str | None:
    if not path.exists():
        return None
    with open_file(path.parent, path.name, "r+b") as file:
        text = file.read()
        whole, torn = text[: text.rfind(b"\n") + 1], text[text.rfind(b"\n") + 1 :]
        if not torn:
            return None
        if _is_json(torn):
            file.write(b"\n")
            return f"{path.name}: added the missing newline to the last line"
        file.truncate(len(whole))  # Rather than written anew: a backup may be reading the file.
        return f"{path.name}: dropped an incomplete last line of {len(torn)} bytes"


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def size_up_to(file: BinaryIO, trial: int, least: int) -> int:
    """Bytes of a record file up to the end of this trial's line, or of all lines within the first `least` bytes if that is more.

    The file may be growing, and may have fewer lines.
    """
    end = position = lines = 0
    while piece := file.read(PIECE_BYTES):
        for newline in re.finditer(b"\n", piece):
            if lines >= trial and position + newline.end() > least:
                return end
            lines, end = lines + 1, position + newline.end()
        position += len(piece)
    return end


def workload_hashes(work_dir: Path) -> list[str]:
    """The structural hash of each workload, by line."""
    return [json.loads(line)[0] for line in _lines(work_dir / WORKLOADS)]


def record_lines(work_dir: Path) -> list[RecordLine]:
    """The lines of the record file. Raises `ValueError` naming a line that can't be read."""
    return [_record_line(number, line) for number, line in enumerate(_lines(work_dir / RECORDS), start=1)]


def _record_line(number: int, line: str) -> RecordLine:
    try:
        workload, (trace, run_secs, *_) = json.loads(line)
        failed = not run_secs or FAILED_RUN_SECS in run_secs
        return RecordLine(workload, None if failed else fmean(run_secs), len(run_secs or ()), lost=not trace[0])
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ValueError(f"{RECORDS}, line {number} isn't a tuning record: {error}") from error


def pad(work_dir: Path, lines: int) -> None:
    """Append lines for trials that were counted but whose records were lost, for example in a power cut."""
    with open_file(work_dir, RECORDS, "ab") as file:
        file.writelines(f"{LOST}\n".encode() for _ in range(lines))


def _lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1] if path.exists() else []


def last_records(work_dir: Path, count: int) -> list[str]:
    """The last records of the file, each as self-contained JSON `[workload, record]`."""
    workloads = _lines(work_dir / WORKLOADS)
    lines = _lines(work_dir / RECORDS)
    return [_self_contained(line, workloads) for line in lines[len(lines) - count :]]


def record_of(work_dir: Path, trial: int) -> str | None:
    """The record of a trial, in the same form; None if it was lost."""
    with (work_dir / RECORDS).open() as file:
        line = next(islice(file, trial - 1, None), "").strip()
    return None if line in ("", LOST) else _self_contained(line, _lines(work_dir / WORKLOADS))


def best_records(work_dir: Path, most: int, repeat: int) -> dict[str, list[BestRecord]]:
    """By structural hash, each workload's best records, at most so many, fastest first. `repeat` is the run's: more mean a short measurement."""
    workloads = _lines(work_dir / WORKLOADS)
    best: dict[int, list[BestRecord]] = defaultdict(list)
    with (work_dir / RECORDS).open() as file:
        for number, text in enumerate(file, start=1):
            line = _record_line(number, text)
            if line.lost or line.latency_s is None or line.repeats > repeat:
                continue
            few = best[line.workload]
            insort(few, BestRecord(line.latency_s, number, _self_contained(text.strip(), workloads)))
            del few[most:]
    return {json.loads(workloads[index])[0]: few for index, few in best.items()}


def entries(workloads: bytes, records: BinaryIO, count: int) -> Iterator[tuple[bytes, bytes] | None]:
    """Yield workload and record, each as JSON, for up to `count` lines of the record file; None for a lost record.

    `workloads` is the content of the workload file. Both may be growing, so an incomplete last line is left out.
    """
    known = workloads.split(b"\n")[:-1]
    for line in islice(records, count):
        if not line.endswith(b"\n"):
            return
        index, _, record = line.strip().removeprefix(b"[").partition(b",")
        yield None if line.strip() == LOST.encode() else (known[int(index)], record[:-1].strip())


def _self_contained(line: str, workloads: list[str]) -> str:
    index, _, record = line.removeprefix("[").partition(",")
    return f"[{workloads[int(index)]},{record}"


class RecordTail:
    """Reads the records that MetaSchedule appends, so that they are passed on exactly as written."""

    def __init__(self, work_dir: Path) -> None:
        self._workloads = _lines(work_dir / WORKLOADS)
        self._path = work_dir / RECORDS
        self._position = self._path.stat().st_size

    def read_next(self) -> str:
        """The next appended record as self-contained JSON `[workload, record]`."""
        with self._path.open("rb") as file:
            file.seek(self._position)
            line = file.readline().decode().rstrip("\n")
            self._position = file.tell()
        return _self_contained(line, self._workloads)
