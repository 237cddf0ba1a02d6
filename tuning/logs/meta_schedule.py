"""MetaSchedule's two record files: repaired, counted and kept aligned with a run's trials. No TVM here.

`database_workload.json` has a line `[hash, module]` for each task, `database_tuning_record.json` a line
`[workload index, [trace, run_secs, target, args_info]]` for each trial: line n is the run's n-th trial.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"
FAILED_RUN_SECS = 1e10
"""What MetaSchedule writes as the only `run_secs` of a trial that failed."""
LOST = "[0,[[[],[]],[10000000000],null,null]]"
"""A line for a trial whose record was lost: an empty trace, which MetaSchedule takes for invalid and passes over."""


@dataclass(frozen=True)
class Recorded:
    """One line of the record file; `workload` is the line of the workload file, from 0."""

    workload: int
    latency_s: float | None
    repeats: int
    """How many `run_secs` it has: more than a run's `repeat` when it was measured shortly."""
    lost: bool


def repair(work_dir: Path) -> list[str]:
    """Drop the line that a killed process tore off at the end of either file; says what it did.

    A torn trial was never reported: an event is sent only after its line was written whole.
    """
    return [said for name in (WORKLOADS, RECORDS) if (said := _repair(work_dir / name))]


def _repair(path: Path) -> str | None:
    if not path.exists():
        return None
    text = path.read_bytes()
    whole, torn = text[: text.rfind(b"\n") + 1], text[text.rfind(b"\n") + 1 :]
    if not torn:
        return None
    if _is_json(torn):
        path.write_bytes(text + b"\n")
        return f"{path.name}: the last line lacked its end"
    path.write_bytes(whole)
    return f"{path.name}: dropped a torn last line of {len(torn)} bytes"


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def workload_hashes(work_dir: Path) -> list[str]:
    """Each workload's hash as written, by line."""
    return [json.loads(line)[0] for line in _lines(work_dir / WORKLOADS)]


def recorded(work_dir: Path) -> list[Recorded]:
    """All trials of the record file. Raises `ValueError` that names a line that can't be read."""
    return [_recorded(number, line) for number, line in enumerate(_lines(work_dir / RECORDS), start=1)]


def _recorded(number: int, line: str) -> Recorded:
    try:
        workload, (trace, run_secs, *_) = json.loads(line)
        failed = not run_secs or FAILED_RUN_SECS in run_secs
        return Recorded(workload, None if failed else fmean(run_secs), len(run_secs or ()), lost=not trace[0])
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise ValueError(f"{RECORDS}, line {number} is no tuning record: {error}") from error


def pad(work_dir: Path, lines: int) -> None:
    """Append lines for trials that are counted but whose records are lost (say, by a power cut)."""
    with (work_dir / RECORDS).open("a") as file:
        file.writelines(LOST + "\n" for _ in range(lines))


def _lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1] if path.exists() else []


def latest(work_dir: Path, count: int) -> list[str]:
    """The last lines of the record file, each as JSON `[workload, record]`, which needs no other file."""
    workloads = _lines(work_dir / WORKLOADS)
    lines = _lines(work_dir / RECORDS)
    return [_whole(line, workloads) for line in lines[len(lines) - count :]]


def entries(work_dir: Path, count: int) -> Iterator[tuple[bytes, bytes] | None]:
    """Workload and record, each as JSON, of one line after another, `count` at most; None for a lost record.

    The file may grow meanwhile: a last line that lacks its end isn't given.
    """
    workloads = (work_dir / WORKLOADS).read_bytes().split(b"\n")[:-1]
    with (work_dir / RECORDS).open("rb") as file:
        for line in islice(file, count):
            if not line.endswith(b"\n"):
                return
            index, _, record = line.strip().removeprefix(b"[").partition(b",")
            yield None if line.strip() == LOST.encode() else (workloads[int(index)], record[:-1].strip())


def _whole(line: str, workloads: list[str]) -> str:
    index, _, record = line.removeprefix("[").partition(",")
    return f"[{workloads[int(index)]},{record}"


class RecordText:
    """Reads what MetaSchedule appends, so that a record is passed on exactly as it stands in the file."""

    def __init__(self, work_dir: Path) -> None:
        self._workloads = _lines(work_dir / WORKLOADS)
        self._path = work_dir / RECORDS
        self._read = self._path.stat().st_size

    def appended(self) -> str:
        """The line appended since the last call as JSON `[workload, record]`, which needs no other file."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            line = file.readline().decode().rstrip("\n")
            self._read = file.tell()
        return _whole(line, self._workloads)
