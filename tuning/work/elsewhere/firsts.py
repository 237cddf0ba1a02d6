"""What a file that is watched begins with: its first record says by which engine and for which target it is."""

from __future__ import annotations

from pathlib import Path

from tuning.beneath import ANY, open_file
from tuning.logs import neutral
from tuning.logs.databases import DatabaseReader
from tuning.logs.lines import LineParser
from tuning.logs.meta_schedule import RECORDS, WORKLOADS
from tuning.logs.neutral import EngineName
from tuning.logs.workloads import Workload, parsed

FIRST_BYTES = 16 << 20
"""Bytes in which a file's first record must be found."""


def record_file(path: Path) -> Path:
    """The file to follow: that of a MetaSchedule database if the path is its folder."""
    return path / RECORDS if path.is_dir() else path


def first_trial(path: Path) -> tuple[neutral.Task, EngineName] | None:
    """The first record's task and engine, by which a run begins; None if there is no record yet. Raises `OSError`."""
    workloads = [workload(line) for line in _lines(path.with_name(WORKLOADS))]
    parser = LineParser(path.name)
    for line in _lines(path):
        found = parser.parse_line(line)
        if isinstance(found, neutral.Trial) and parser.engine:
            if parser.engine == "meta_schedule" and workloads:
                return _first_of_pair(path, line, workloads)
            return parser.tasks[found.task], parser.engine
    return None


def _first_of_pair(path: Path, line: bytes, workloads: list[Workload | None]) -> tuple[neutral.Task, EngineName]:
    parser = LineParser(path.name, "meta_schedule", DatabaseReader(path.name, {}, [], workloads))
    parser.parse_line(line)
    return next(iter(parser.tasks.values())), "meta_schedule"


def _lines(path: Path) -> list[bytes]:
    """The first lines, whole ones only."""
    try:
        with open_file(Path(path.anchor), path, names=ANY) as file:
            return file.read(FIRST_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def workload(line: bytes) -> Workload | None:
    """What a line of a workload file says; None if it can't be read."""
    try:
        return parsed(line)
    except ValueError:  # msgspec's errors are such, too.
        return None
