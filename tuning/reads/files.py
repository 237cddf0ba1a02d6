"""Files in pieces that are large enough to be sent one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tuning.models import Network
from tuning.storage import store
from tuning.validation import Conflict

from .console import Printed, log_of

PIECE_BYTES = 1 << 17
Pieces = Iterator[bytes]


@dataclass(frozen=True)
class File:
    """A file of one or several runs; `name` is the part after the runs' own name."""

    name: str
    content_type: str
    version: str
    """Changes with the content."""
    pieces: Pieces
    size: int | None = None
    """In bytes, if known in advance."""


def console_file(source: Printed, name: str = "console.log") -> File:
    """The console log so far. Raises `Conflict` if nothing has been printed yet, and `NotRegular`."""
    log = log_of(source)
    if not (size := store().length(log)):
        raise Conflict("Nothing has been printed yet.")
    version = f"console {size} {store().get_modified_time(str(log)).timestamp()}"
    return File(name, "text/plain; charset=utf-8", version, file_pieces(log, size), size)


def model_file(network: Network) -> File:
    """What engines read of an uploaded model. Raises `Conflict` if there is none."""
    if not network.is_uploaded or network.size is None:
        raise Conflict("Only uploaded models have a file.")
    if not store().length(network.file):
        raise Conflict("The model's file is missing.")
    pieces = file_pieces(network.file, network.size)
    return File(
        f"model{network.file.suffix}", "application/octet-stream", f"model {network.sha256}", pieces, network.size
    )


def file_pieces(path: Path, size: int) -> Pieces:
    """The first `size` bytes of a file that may be growing."""
    with store().opened(path) as file:
        while size and (piece := file.read(min(PIECE_BYTES, size))):
            size -= len(piece)
            yield piece


def joined(parts: Iterable[bytes]) -> Pieces:
    """The parts, gathered to larger pieces."""
    gathered: list[bytes] = []
    size = 0
    for part in parts:
        gathered.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)


def cell(text: str) -> str:
    """The text as spreadsheets show it: they would run one that begins like a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
