"""The console log of a run or a compilation: what its process, TVM and compilers printed."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from typing_extensions import TypedDict

from tuning.beneath import NotRegular
from tuning.models import Run
from tuning.storage import Away, store

TAIL_BYTES = 64 * 1024
AWAY = "(The object store can't be reached right now, so there is no output to show.)\n"


class Printed(Protocol):
    """Something with a console log."""

    @property
    def console_log(self) -> Path:
        """The file, which may not exist yet."""


def log_of(source: Printed) -> Path:
    """The file with the output, wherever the version that wrote it has put it. Raises `NotRegular`."""
    if isinstance(source, Run) and store().length(source.console_log) is None:
        before = source.console_log_before
        return source.console_log if store().length(before) is None else before
    return source.console_log


def has_printed(source: Printed) -> bool:
    """Whether there is output, or something in its place, which the download refuses."""
    try:
        return bool(store().length(log_of(source)))
    except NotRegular:
        return True


class ConsoleDict(TypedDict):
    """A piece of the log; `start` and `end` are byte offsets. Ask for the next piece with `after` set to `end`."""

    text: str
    start: int
    end: int


def console(source: Printed, *, after: int | None = None, limit: int = TAIL_BYTES) -> ConsoleDict:
    """At most `limit` bytes from offset `after`; without it the end of the log, from the start of a line."""
    try:
        with store().opened(log_of(source)) as log:
            size = log.seek(0, 2)
            start = max(0, size - limit) if after is None else min(after, size)
            log.seek(start)
            data = log.read(limit)
    except FileNotFoundError:
        return {"text": "", "start": 0, "end": 0}
    except Away:
        return _no_output(AWAY, after)
    except NotRegular as refused:
        return _no_output(f"({refused})\n", after)
    if after is None and start > 0:
        skipped = data.find(b"\n") + 1
        start, data = start + skipped, data[skipped:]
    whole = _whole_characters(data)
    return {"text": whole.decode(errors="replace"), "start": start, "end": start + len(whole)}


def _no_output(why: str, after: int | None) -> ConsoleDict:
    return {"text": why if after is None else "", "start": after or 0, "end": after or 0}


def last_lines(source: Printed, count: int) -> str:
    """The last lines of the log, without blank ones."""
    lines = [line for line in console(source)["text"].splitlines() if line.strip()]
    return "\n".join(lines[-count:])


def _whole_characters(data: bytes) -> bytes:
    """The data without a UTF-8 character that is cut off at the end; the next piece has all of it."""
    for cut in range(1, min(4, len(data)) + 1):
        byte = data[-cut]
        if byte & 0xC0 != 0x80:
            need = 1 if byte < 0x80 else 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4
            return data[:-cut] if need > cut else data
    return data
