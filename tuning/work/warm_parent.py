"""The worker's side of a warm parent, which forks engines from a process that has TVM loaded; see `tuning.engines.forking.parent`."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading

from typing_extensions import Self

from tuning.engines.wire.protocol import READY
from tuning.host import surroundings

logger = logging.getLogger(__name__)
WAIT_S = 12.0
"""How long a run waits for a parent to load, and then for it to fork. Less than the lease, which isn't renewed meanwhile."""


class ForkedEngine:
    """An engine that a warm parent forked, with the part of the interface of `subprocess.Popen` that a supervisor needs."""

    def __init__(self, pid: int, stdin: int, status: int) -> None:
        """With the file descriptors of its stdin and of the socket that tells its status."""
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb")
        self._status = socket.socket(fileno=status)
        self._line = b""

    def file_descriptors(self) -> tuple[int, int]:
        """Of its stdin and status, for another process to take it over by."""
        return self.stdin.fileno(), self._status.fileno()

    def let_go(self) -> None:
        """Leave it to whoever took it over; if nobody did, it ends."""
        self._status.close()
        self.stdin.close()

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit status (negative: the signal that killed it); None if the process that reports it was killed.

        Raises `subprocess.TimeoutExpired`.
        """
        try:
            self._line = self._line or _line(self._status, timeout)
        except TimeoutError as error:
            raise subprocess.TimeoutExpired("engine", timeout or 0) from error
        return int(self._line) if self._line else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait until it has ended, and close its pipes."""
        with self._status, self.stdin:
            self.wait()


class WarmParent:
    """Keeps a process that has an engine's module loaded, for targets of one kind. It ends with this process (Linux)."""

    def __init__(self, module: str, kind: str) -> None:
        self._module = module
        self._command = [sys.executable, "-m", "tuning.engines.forking.parent", module, "--kind", kind]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._ready = False

    @property
    def pid(self) -> int | None:
        """Its process id, while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start loading, unless it is running already."""
        with self._lock:
            self._start()

    def fork(self, console: int, events: int, module: str = "") -> ForkedEngine | None:
        """An engine, or another `module` that needs what this one has loaded; None if the parent can't provide one, and the engine has to be started afresh. File descriptors stay open.

        A parent that is gone, or that ends because it is out of date, is replaced first. One that is still loading, slower than
        usual, may continue; one that hangs is ended.
        """
        with self._lock:
            try:
                for _ in range(2):
                    self._start()
                    if self._loaded() and (engine := self._ask(module or self._module, console, events)):
                        return engine
                    self._end()
                said = "can't be started"
            except TimeoutError:
                said = f"doesn't answer within {WAIT_S:g} s" if self._ready else f"isn't loaded within {WAIT_S:g} s"
                if self._ready:
                    self._end()
        logger.warning("The warm parent of engines %s: the run starts its engine without it.", said)
        return None

    def stop(self) -> None:
        """End it; its engines continue."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        if self.pid is not None:
            return
        self._end()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*self._command, "--requests-fd", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=surroundings.folder(),
                start_new_session=True,
                env=surroundings.environment(),
            )

    def _loaded(self) -> bool:
        """Wait until the parent is ready; False if it ended instead. Raises `TimeoutError`."""
        assert self._requests
        self._requests.settimeout(WAIT_S)
        with contextlib.suppress(ConnectionResetError):
            self._ready = self._ready or self._requests.recv(16) == READY
        return self._ready

    def _ask(self, module: str, console: int, events: int) -> ForkedEngine | None:
        """None if the parent ended. Raises `TimeoutError`."""
        assert self._requests
        stdin, ours = os.pipe()
        status, theirs = socket.socketpair()
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, ours)  # This ends an engine that nobody waits for.
            undo.enter_context(status)
            with theirs, os.fdopen(stdin, "rb"), contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._requests, [module.encode()], [stdin, console, events, theirs.fileno()])
            if not (pid := _line(status, WAIT_S)):
                return None
            undo.pop_all()
        return ForkedEngine(int(pid), ours, status.detach())

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
        if self._requests:
            self._requests.close()
        self._process = self._requests = None
        self._ready = False


def _line(source: socket.socket, timeout: float | None) -> bytes:
    """The next line, or nothing if the other end is closed first. Raises `TimeoutError`."""
    source.settimeout(timeout)
    line = b""
    while not line.endswith(b"\n"):
        try:
            byte = source.recv(1)
        except ConnectionResetError:
            return b""
        if not byte:
            return b""
        line += byte
    return line
