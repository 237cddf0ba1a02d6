"""Splits what a confined process sends into lines. Hostile code could send one that never ends, and fill this process's memory."""

from __future__ import annotations

MIB = 1 << 20
LONGEST = 128 * MIB
"""Bytes of a line. The longest answer has the four listings of a record for a GPU, of up to 16 Mi characters each, which JSON may escape."""


class TooLong(Exception):
    """There was more than there may be. The text says how much that is."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most // MIB} MiB")


class Lines:
    """The lines of a stream that arrives in pieces."""

    def __init__(self, longest: int = LONGEST, most: int | None = None) -> None:
        """Limit each line, and all of them together to `most`, in bytes."""
        self._longest, self._most = longest, most
        self._total = 0
        self._rest = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        """The lines that end in this piece. Raises `TooLong`."""
        self._total += len(data)
        if self._most is not None and self._total > self._most:
            raise TooLong(self._most)
        *ended, rest = data.split(b"\n")
        lines = [self._line(piece) for piece in ended]
        self._extend(rest)
        return lines

    def _line(self, piece: bytes) -> bytes:
        self._extend(piece)
        line = bytes(self._rest)
        self._rest.clear()
        return line

    def _extend(self, piece: bytes) -> None:
        self._rest += piece
        if len(self._rest) > self._longest:
            raise TooLong(self._longest)
