"""What a member makes of a measuring process that breaks its protocol."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.tuning.engines.pooling import pool_start
from tuning.engines.wire.pools.messages import FakeDevice, PoolEvent
from tuning.engines.wire.protocol import Failed
from tuning.work.pool.measuring import LONGEST_EVENT, Forked, Measuring

MIB = 1 << 20


class Talker:
    """A measuring process of which there are only the pipes."""

    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[PoolEvent | None] = queue.SimpleQueue()
        events, self._events = os.pipe()
        self._stdin, stdin = os.pipe()
        status, self._status = socket.socketpair()
        start = pool_start("lab-1", {"kind": "llvm"}, fake=FakeDevice())
        self._measuring = Measuring(start, self.heard.put, Forked(os.getpid(), stdin, status.detach(), events))

    def say(self, *pieces: bytes) -> None:
        """Say it, and end."""
        threading.Thread(target=self._say, args=(pieces,)).start()

    def _say(self, pieces: tuple[bytes, ...]) -> None:
        with os.fdopen(self._events, "wb") as events:
            try:
                for piece in pieces:
                    events.write(piece)
                    events.flush()
            except BrokenPipeError:
                return

    def close(self) -> None:
        self._status.sendall(b"0\n")
        self._measuring.close()
        self._status.close()
        os.close(self._stdin)


@pytest.fixture
def talker() -> Iterator[Talker]:
    talker = Talker()
    yield talker
    talker.close()


@pytest.mark.parametrize(
    "line",
    [
        b"Segmentation fault",
        b'{"type":"measured","id":"1","machine":"lab-1","run_secs":[-1]}',
        b'{"type":"measured","id":"1","machine":"lab-1","run_secs":[1e999]}',
        b'{"type":"measured","id":"1","machine":"lab-1"}',
        b'{"type":"ready","wants":"\xff"}',
        b'{"type":"hello","versions":' + b"[" * 100_000,
    ],
    ids=lambda line: line[:60],
)
def test_it_says_what_the_process_did_wrong(talker: Talker, line: bytes) -> None:
    talker.say(line + b"\n")
    event = talker.heard.get(timeout=60)
    assert isinstance(event, Failed)
    assert event.error.startswith("The measuring process broke its protocol: ")
    assert talker.heard.get(timeout=60) is None


def test_it_reads_no_line_without_end(talker: Talker) -> None:
    talker.say(*[b"x" * MIB] * (LONGEST_EVENT // MIB + 64))
    event = talker.heard.get(timeout=60)
    assert isinstance(event, Failed)
    assert "more than 16 MiB" in event.error
