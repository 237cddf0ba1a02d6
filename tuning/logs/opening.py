"""From files to logs. Formats are told by content, not by name; a MetaSchedule database's files by their folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from .databases import DatabaseReader, latencies
from .lines import FORMATS, Format, LineParser, is_nothing, number_of, read_lines, size_of, sniffed
from .meta_schedule import RECORDS
from .neutral import BadLine, EngineName, Remark, Session, Skipped, Task, Trial
from .sources import MIB, Found, Source, Unreadable
from .workdir import INITIALIZING, NO_ZONE, TRIAL, Times, Told, WorkLog, matched
from .workloads import Workload, parsed

SNIFFED_BYTES = 64 * MIB
SNIFFED_LINES = 1_000_000
"""A file without a record in its first 64 MiB or million lines is none. A run of blank lines counts as one."""
Kind = Format | Literal["work_log"]


@dataclass(frozen=True)
class Database:
    """What belongs to a MetaSchedule log besides its records."""

    workloads: Source | None
    work_logs: Sequence[Source]


@dataclass
class Log:
    """One log: a file of auto_scheduler or AutoTVM, or a MetaSchedule database.

    Everything but `name` and `engine` grows while `batches` is read, and is complete at its end.
    """

    name: str
    engine: EngineName
    source: Source
    database: Database = field(default_factory=lambda: Database(None, ()))
    tasks: dict[str, Task] = field(default_factory=dict)
    """By key, in order of first appearance: `log.tasks[trial.task].target`."""
    sessions: list[Session] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    lines: int = 0
    """records + blank + comments + bad."""
    records: int = 0
    blank: int = 0
    comments: int = 0
    bad: int = 0
    tvm_version: str | None = None
    _digest: str | None = None

    def batches(self) -> Iterator[list[Trial | BadLine]]:
        """All lines but blank ones and comments, piece by piece. Calling it again starts again."""
        parser = self._parser()
        self._follow(parser)
        for batch in _parsed(parser, self.source):
            self._follow(parser)
            yield batch
        self._follow(parser)
        self._digest = parser.digest()

    def digest(self) -> str:
        """Of the records: the same whatever blank lines, comments, spaces and the order of JSON keys are.

        Reads the log if nobody has read `batches` to its end.
        """
        if self._digest is None:
            for _ in self.batches():
                pass
        assert self._digest
        return self._digest

    def _follow(self, parser: LineParser) -> None:
        self.tasks, self.sessions, self.remarks = parser.tasks, parser.sessions, parser.remarks
        self.lines, self.records, self.bad = parser.lines, parser.records, parser.bad
        self.blank, self.comments, self.tvm_version = parser.blank, parser.comments, parser.tvm_version

    def _parser(self) -> LineParser:
        if self.engine != "meta_schedule":
            return LineParser(self.name, self.engine)
        workloads, told, remarks = self._beside
        return LineParser(self.name, reader=DatabaseReader(self.name, {}, list(remarks), workloads, told))

    @cached_property
    def _beside(self) -> tuple[list[Workload | None] | None, dict[int, Told], list[Remark]]:
        """What the database's other files say: workloads, what logs say of each, and remarks. Reading them takes as long as the records."""
        remarks: list[Remark] = []
        return _workloads(self.database.workloads, remarks), _told(self, remarks), remarks


@dataclass(frozen=True)
class Opened:
    logs: Sequence[Log]
    skipped: Sequence[Skipped]


def open_logs(found: Found) -> Opened:
    """The logs among these files, and why the others aren't."""
    kinds: dict[Kind, list[Source]] = defaultdict(list)
    skipped = list(found.skipped)
    for source in found.sources:
        kind = _kind(source)
        if kind in KINDS:
            kinds[kind].append(source)  # type: ignore[index]
        else:
            skipped.append(Skipped(source.name, kind))
    logs = [Log(each.name, engine, each) for engine in ("auto_scheduler", "autotvm") for each in kinds[engine]]
    logs += _databases(kinds, skipped)
    skipped += [Skipped(each.name, _unread("pickle")) for each in kinds["pickle"]]
    return Opened(sorted(logs, key=lambda log: log.name), skipped)


KINDS: frozenset[str] = frozenset({*FORMATS, "work_log"})


def _unread(kind: Format) -> str:
    return f"it begins with {FORMATS[kind]}"


def _kind(source: Source) -> str:
    """The format of a file, or why it has none."""
    try:
        return _told_by_content(source)
    except (Unreadable, OSError) as error:
        return str(error)


def _told_by_content(source: Source) -> str:
    seen = lines_seen = looked = 0
    binary = False
    with source.open() as stream:
        for lines, torn in read_lines(stream, source.limits.line_bytes):
            for line in [*lines, *([torn] if torn else [])]:
                seen += size_of(line)
                if kind := sniffed(line) or _of_work_log(line):
                    return kind
                binary = binary or b"\0" in line
                looked += not is_nothing(line)
            if binary:
                return "it is binary, and no log of a known format"
            lines_seen += len(lines)
            if seen > SNIFFED_BYTES:
                return f"there is no record in its first {SNIFFED_BYTES // MIB} MiB"
            if lines_seen > SNIFFED_LINES:
                return f"there is no record in its first {SNIFFED_LINES:,} lines"
    return "there is no record of a known format in it" if looked else "it has only blank lines and comments"


def _of_work_log(line: bytes) -> Literal["work_log"] | None:
    if b"Task #" not in line:
        return None
    text = line.decode("utf-8", "replace")
    return "work_log" if INITIALIZING.search(text) or TRIAL.search(text) else None


def _parsed(parser: LineParser, source: Source) -> Iterator[list[Trial | BadLine]]:
    try:
        with source.open() as stream:
            for lines, torn in read_lines(stream, source.limits.line_bytes):
                yield parser.parse_lines(lines) if torn is None else parser.torn(torn)
    except (Unreadable, OSError) as error:
        yield [parser.unreadable(str(error))]


def _databases(kinds: Mapping[Kind, Sequence[Source]], skipped: list[Skipped]) -> list[Log]:
    """One log for each file of records, with the workload file and the logs that belong to it."""
    records, workloads = kinds.get("meta_schedule", ()), list(kinds.get("workloads", ()))
    logs = []
    for each in records:
        mine = _workload_file(each, records, workloads)
        logs.append(
            Log(each.name, "meta_schedule", each, Database(mine, _work_logs(each, records, kinds.get("work_log", ()))))
        )
    used = {id(log.database.workloads) for log in logs}
    used_logs = {id(each) for log in logs for each in log.database.work_logs}
    skipped += [
        Skipped(each.name, f"the records of these workloads are missing: {RECORDS}")
        for each in workloads
        if id(each) not in used
    ]
    skipped += [
        Skipped(each.name, "it is a console or a log of MetaSchedule, and the records that it tells of are missing")
        for each in kinds.get("work_log", ())
        if id(each) not in used_logs
    ]
    return logs


def _workload_file(records: Source, all_records: Sequence[Source], workloads: Sequence[Source]) -> Source | None:
    """The workload file of the same folder; if there are several pairs, the one whose name differs only in that word."""
    here = [each for each in workloads if each.folder == records.folder]
    rivals = [each for each in all_records if each.folder == records.folder]
    if len(here) == 1 and len(rivals) == 1:
        return here[0]
    return next((each for each in here if _stem(each.name) == _stem(records.name)), None)


def _stem(name: str) -> str:
    last = name.rpartition("/")[2].removesuffix(".gz")
    return last.replace("tuning_record", "*").replace("workload", "*")


def _work_logs(records: Source, all_records: Sequence[Source], logs: Sequence[Source]) -> list[Source]:
    """The logs in the folder of the records or below it, unless another database is nearer."""
    folders = {each.folder for each in all_records}

    def nearest(log: Source) -> str | None:
        above = log.folder
        while above not in folders:
            if not above:
                return None
            above = above.rpartition("/")[0]
        return above

    return [each for each in logs if nearest(each) == records.folder]


def _workloads(source: Source | None, remarks: list[Remark]) -> list[Workload | None] | None:
    """All workloads by index; None for a line that can't be read, so that the others keep their index."""
    if source is None:
        return None
    workloads: list[Workload | None] = []
    for at, line in _whole_lines(source, remarks):
        if is_nothing(line):
            continue
        try:
            workloads.append(parsed(line))
        except (ValueError, RecursionError) as error:
            workloads.append(None)
            remarks.append(Remark(source.name, f"workload {len(workloads) - 1} can't be read: {error}", at))
    return workloads


def _whole_lines(source: Source, remarks: list[Remark]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that belongs to a log, counted from 1. If it can't be read to its end, that is remarked."""
    at = 0
    try:
        with source.open() as stream:
            for lines, torn in read_lines(stream, source.limits.line_bytes):
                for line in [*lines, *([torn] if torn else [])]:
                    at += number_of(line)
                    yield at, line
    except (Unreadable, OSError) as error:
        remarks.append(Remark(source.name, str(error), at + 1))


def _told(log: Log, remarks: list[Remark]) -> dict[int, Told]:
    """What the logs of the work directory tell, by workload index. Reads the records once more, as times show what belongs together."""
    if not log.database.work_logs:
        return {}
    work_logs = [
        WorkLog().read(line.decode("utf-8", "replace") for _, line in _whole_lines(each, remarks))
        for each in log.database.work_logs
    ]
    times: dict[int, Times] = defaultdict(Times)
    for _, line in _whole_lines(log.source, []):
        if found := latencies(line):
            times[found[0]].add(found[1])
    told, strangers = matched(work_logs, times)
    remarks += [Remark(log.database.work_logs[0].name, text) for text in strangers]
    if any(each.has_times for each in told.values()):
        remarks.append(Remark(log.database.work_logs[0].name, NO_ZONE))
    return told
