"""The measuring process of a member, as the member's process handles it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Union

import msgspec

from tuning.engines.wire.pools import messages
from tuning.engines.wire.pools.messages import PoolEvent, PoolStart, Probe
from tuning.engines.wire.protocol import Candidate, Hold, encode
from tuning.host import surroundings

MODULE = "tuning.engines.pool"
END_S = 10.0
Control = Union[PoolStart, Candidate, Probe, Hold]


class Measuring:
    """Builds and measures until it is closed. `heard` is called on a thread of its own, with None as it ends."""

    def __init__(self, start: PoolStart, heard: Callable[[PoolEvent | None], None]) -> None:
        """Start it. Raises `OSError`."""
        self._scratch = tempfile.TemporaryDirectory(prefix="tuneboard-", ignore_cleanup_errors=True)
        self._lock = threading.Lock()
        reader, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, "--events-fd", str(writer)],
                stdin=subprocess.PIPE,
                stdout=sys.stderr,
                pass_fds=[writer],
                cwd=surroundings.folder(),
                start_new_session=True,
                env=surroundings.environment(),
            )
        finally:
            os.close(writer)
        self._events = os.fdopen(reader, "rb")
        threading.Thread(target=self._read, args=(heard,), name="measuring", daemon=True).start()
        self.ask(msgspec.structs.replace(start, scratch=self._scratch.name))

    def ask(self, control: Control) -> None:
        """Send a control, unless the process is already gone."""
        assert self._process.stdin
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(encode(control))
            self._process.stdin.flush()

    def close(self) -> None:
        """End it with what it has started. Its stdin closing is enough, unless it hangs."""
        assert self._process.stdin
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._scratch.cleanup()

    def _read(self, heard: Callable[[PoolEvent | None], None]) -> None:
        with contextlib.suppress(msgspec.MsgspecError, ValueError):  # A line that isn't an event ends it, too.
            for line in self._events:
                heard(messages.decode_event(line))
        heard(None)
