"""Lines into trials: a line at a time for whoever follows a growing file, or many."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from math import inf
from typing import BinaryIO, Literal

import msgspec

from tuning.records.parsing import RecordRefused, without_infinities

from .auto_scheduler import AutoSchedulerReader
from .autotvm import AutoTVMReader
from .databases import DatabaseReader
from .neutral import BadLine, EngineName, Remark, Session, Task, Trial
from .reading import ANYTHING, NotARecord, Reader
from .sources import MIB

PAUSE_S = 1800
"""A log whose times jump this far, forward or back, has another session from there on. Times within a batch go back by less."""
Format = EngineName | Literal["workloads", "pickle"]
FORMATS: dict[Format, str] = {
    "auto_scheduler": "an auto_scheduler record",
    "autotvm": "an AutoTVM record",
    "meta_schedule": "a MetaSchedule record",
    "workloads": "a line of a MetaSchedule workload file",
    "pickle": "a record of AutoTVM's pickle protocol, which isn't read: a pickle may run any code. Write the log again with "
    'protocol="json", in the TVM that wrote it',
}
READERS: dict[EngineName, type[Reader]] = {
    "auto_scheduler": AutoSchedulerReader,
    "autotvm": AutoTVMReader,
    "meta_schedule": DatabaseReader,
}
SHORTEST = 32
"""Bytes of a line. Lines of records are longer in the mean."""
BLANK = re.compile(rb"(?:\A|(?<=\n))[ \t\r\x0b\x0c\n]*\n")
PICKLE = re.compile(rb"[A-Za-z0-9+/=]{8,}(\t[^\t]*){3}((\t[^\t]*){2})?\Z")
UNLIKE_RECORDS = (msgspec.MsgspecError, ValueError, RecursionError)


def sniffed(line: bytes) -> Format | None:
    """The format of a line, told by its content."""
    line = line.strip()
    if line[:1] not in {b"{", b"["}:
        return "pickle" if PICKLE.match(line) else None
    try:
        return _sniffed(ANYTHING.decode(without_infinities(line)))
    except UNLIKE_RECORDS:
        return None


def _sniffed(value: object) -> Format | None:
    match value:
        case {"input": list()}:
            return "autotvm"
        case {"i": [str() | dict(), *_]}:
            return "autotvm"
        case {"i": [list(), *_]}:
            return "auto_scheduler"
        case [int(), [list(), *_], *_]:
            return "meta_schedule"
        case [str(), str()]:
            return "workloads"
    return None


def is_nothing(line: bytes) -> bool:
    """Whether a line is blank or a comment."""
    return not (text := line.strip()) or text.startswith(b"#")


class Undecided(Reader):
    """Reads nothing: no record came yet, so the format isn't known."""

    def read(self, *_: object) -> Trial:
        raise NotARecord


class LineParser:
    """Parses one file's lines in turn. `engine` None: the first record tells. `reader` stands in for a reader of `engine`."""

    def __init__(self, name: str, engine: EngineName | None = None, reader: Reader | None = None) -> None:
        self.name = name
        self.tasks: dict[str, Task] = reader.tasks if reader else {}
        self.sessions: list[Session] = []
        self.remarks: list[Remark] = reader.remarks if reader else []
        self.lines = self.records = self.blank = self.comments = self.bad = 0
        self._reader = reader or (self._made(engine) if engine else Undecided(name, self.tasks, self.remarks))
        self._hash = hashlib.sha256()
        self._last = -inf
        self._session = 0

    @property
    def engine(self) -> EngineName | None:
        """None before the first record."""
        return None if isinstance(self._reader, Undecided) else self._reader.engine

    @property
    def tvm_version(self) -> str | None:
        """As the last record or the first workload has it."""
        return self._reader.tvm_version

    def digest(self) -> str:
        """Of the records so far, whatever blank lines, comments, spaces and the order of JSON keys are."""
        return self._hash.hexdigest()

    def parse_line(self, line: bytes) -> Trial | BadLine | None:
        """The trial of a whole line, with or without its newline; None for a blank line or a comment."""
        found = self.parse_lines([line.removesuffix(b"\n")])
        return found[0] if found else None

    def parse_lines(self, lines: Iterable[bytes]) -> list[Trial | BadLine]:
        """The same for many lines, without their newlines."""
        found: list[Trial | BadLine] = []
        for line in lines:
            self.lines += 1
            try:
                # This is all that happens to most lines. What else a line may be only matters if it isn't a record.
                parsed = self._reader.read(line, self.records + 1, self.lines)
            except UNLIKE_RECORDS as error:
                other = self._otherwise(line, error)
                if other is None:
                    continue
                found.append(other)
                if isinstance(other, BadLine):
                    self.bad += 1
                    continue
                parsed = other
            else:
                found.append(parsed)
            self.records += 1
            if self._is_first_of_session(parsed.timestamp):
                self._begin_session(parsed)
        self._digest()
        return found

    def torn(self, line: bytes) -> list[Trial | BadLine]:
        """The last line of a file that nothing will follow, without its newline."""
        found = self.parse_lines([line])
        match found:
            case [BadLine()] if line.lstrip()[:1] in {b"{", b"["}:
                return [self._bad("it is torn: the file ends in the middle of it")]
        return found

    def unreadable(self, reason: str) -> BadLine:
        """The line at which reading ended."""
        self.lines += 1
        self.bad += 1
        return self._bad(f"{reason}; what follows wasn't read")

    def _made(self, engine: EngineName) -> Reader:
        return READERS[engine](self.name, self.tasks, self.remarks)

    def _otherwise(self, line: bytes, error: Exception) -> Trial | BadLine | None:
        """What a line is that its reader didn't take for a record."""
        if is_nothing(line):
            self._count_nothing(line)
            return None
        if isinstance(self._reader, Undecided):
            return self._first(line)
        finite = without_infinities(line)
        if finite != line:
            try:
                return msgspec.structs.replace(self._reader.read(finite, self.records + 1, self.lines), record=line)
            except UNLIKE_RECORDS as again:
                error = again
        return self._bad(_reason(line, error, self._reader.engine))

    def _first(self, line: bytes) -> Trial | BadLine | None:
        """The first record decides how all lines are read."""
        if (found := sniffed(line)) not in READERS:
            return self._bad(_unknown(line, found))
        self._reader = self._made(found)
        try:
            return self._reader.read(line, self.records + 1, self.lines)
        except UNLIKE_RECORDS as error:
            return self._otherwise(line, error)

    def _count_nothing(self, line: bytes) -> None:
        if line.strip():
            self.comments += 1
        else:
            self.blank += number_of(line)
            self.lines += number_of(line) - 1

    def _bad(self, reason: str) -> BadLine:
        return BadLine(self.name, self.lines, reason)

    def _is_first_of_session(self, at: float | None) -> bool:
        """A session begins with the first trial, where the logs of a work directory say so, and after a pause."""
        if at is None:
            return self._reader.session != self._session or not self.sessions
        last, self._last = self._last, at
        return not -PAUSE_S <= at - last <= PAUSE_S or self._reader.session != self._session

    def _begin_session(self, trial: Trial) -> None:
        self.sessions.append(Session(trial.number, trial.timestamp))
        self._session = self._reader.session

    def _digest(self) -> None:
        if canonical := self._reader.canonical:
            canonical.append(b"")
            self._hash.update(b"\n".join(canonical).translate(None, b" \t\r"))
            canonical.clear()


def _unknown(line: bytes, found: Format | None) -> str:
    """Why a line isn't the first record."""
    if isinstance(line, TooLong):
        return line.reason()
    return f"it is {FORMATS[found]}" if found else f"no record of a known format: {_shown(line)}"


def _reason(line: bytes, error: Exception, engine: EngineName) -> str:
    """Why a line isn't a record of this engine."""
    if isinstance(line, TooLong):
        return line.reason()
    found = sniffed(line)
    if found and found != engine:
        return f"it is {FORMATS[found]}, but the file began with {engine}'s"
    if isinstance(error, (NotARecord, RecordRefused)):
        return f"it can't be used: {error}" if isinstance(error, RecordRefused) else str(error)
    if b"\0" in line:
        return "it is binary"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    kind = f"it isn't {FORMATS[engine]}" if isinstance(error, msgspec.ValidationError) else "it isn't JSON"
    return f"{kind}: {error}"


def _shown(line: bytes) -> str:
    return "binary data" if b"\0" in line else repr(line[:60].decode("utf-8", "replace"))


class TooLong(bytes):
    """Stands in for a line longer than the limit: the limit as text."""

    __slots__ = ()

    def reason(self) -> str:
        return f"it is longer than {int(self):,} bytes"


class BlankLines(bytes):
    """Stands in for a run of blank lines: empty as they are, with their number and their size in bytes."""

    number: int
    size: int

    @classmethod
    def of(cls, run: bytes) -> BlankLines:
        lines = cls()
        lines.number, lines.size = run.count(b"\n"), len(run)
        return lines


def number_of(line: bytes) -> int:
    """Lines that this item of `read_lines` stands for."""
    return line.number if isinstance(line, BlankLines) else 1


def size_of(line: bytes) -> int:
    """Bytes in the file that this item of `read_lines` stands for, with its newline."""
    return line.size if isinstance(line, BlankLines) else len(line) + 1


def read_lines(stream: BinaryIO, longest: int) -> Iterator[tuple[list[bytes], bytes | None]]:
    """Lines in pieces of about 1 MiB, without their newlines; at the end what follows the last newline, if anything.

    `TooLong` stands in for a line of more than `longest` bytes, `BlankLines` for a run of blank ones. Raises `Unreadable`.
    """
    rest: list[bytes] = []
    size = 0
    while piece := stream.read(MIB):
        first, newline, others = piece.partition(b"\n")
        size += len(first)
        if size <= longest:
            rest.append(first)
        if newline:
            *lines, last = _split(others)
            yield [_line(rest, size, longest), *lines], None
            rest, size = [last], len(last)
    if size:
        yield [], _line(rest, size, longest)


def _split(text: bytes) -> list[bytes]:
    """Split into lines. Runs of blank lines are only looked for in text that no records make: it takes longer."""
    if text.count(b"\n") * SHORTEST < len(text):
        return text.split(b"\n")
    lines: list[bytes] = []
    end = 0
    for run in BLANK.finditer(text):
        lines += text[end : run.start()].split(b"\n")[:-1]
        lines.append(BlankLines.of(run[0]))
        end = run.end()
    return lines + text[end:].split(b"\n")


def _line(pieces: list[bytes], size: int, longest: int) -> bytes:
    return b"".join(pieces) if size <= longest else TooLong(b"%d" % longest)
