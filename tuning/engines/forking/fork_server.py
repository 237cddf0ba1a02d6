"""Python's fork server, itself forked from an engine that has TVM loaded and hasn't started a thread.

Loading TVM takes more than a second of CPU. A fork takes milliseconds and shares the memory. Once the engine has
threads it can't be forked any more, so a second copy waits in reserve, in case the server is killed.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import inspect
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NoReturn

from tuning.engines.wire.lifeline import become_fork_server, die_with

logger = logging.getLogger("tuneboard")
Spawn = Callable[[str, Sequence[str], Sequence[int]], int]
"""`util.spawnv_passfds`: starts the executable with these arguments and file descriptors, and returns its pid."""
SPAWN_PARAMETERS = ["path", "args", "passfds"]
SERVER_COMMAND = "from multiprocessing.forkserver import main; "
"""What Python hands to `python -c` to start its fork server begins with this."""
COPIES = 2
"""The server, and one to replace it. Further ones, if that is killed as well, load TVM again."""
LONGEST_COMMAND = 1 << 20


def start_fork_server(preload: Sequence[str]) -> ForkServerContext:
    """Return a context whose processes are forked from a copy of this process, with all that it has loaded.

    `preload` names the modules that these processes need. They are imported only where the server can't be forked.
    Call this on the main thread, with which the server ends, and before another thread is started.
    """
    if threading.active_count() > 1:
        raise RuntimeError("A process with threads can't be forked: one of them may hold a lock.")
    # Engines skip the interpreter's shutdown. Python's resource tracker removes what they leave, but would warn of it.
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker:UserWarning"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tuning.engines.forking.preloaded", *preload])
    resource_tracker.ensure_running()
    if not _fork_server():
        logger.warning("Python's multiprocessing isn't as expected: the workers' fork server loads TVM again.")
        forkserver.ensure_running()
    return context


def close_fds_except(*fds: int) -> None:
    """Close every file descriptor but these and the standard three."""
    for fd in [int(path.name) for path in Path("/dev/fd").iterdir()]:
        if fd > 2 and fd not in fds:
            with contextlib.suppress(OSError):  # The one that listed them.
                os.close(fd)


def _fork_server() -> bool:
    """Have Python start its fork server, `python -c COMMAND`, as a fork of this process; False if that isn't possible.

    There is no public interface for this, so everything it relies on is checked. Tested with Python 3.11, and compared
    with the source of 3.14.
    """
    untyped: Any = util
    spawn: Spawn | None = getattr(untyped, "spawnv_passfds", None)
    if spawn is None or list(inspect.signature(spawn).parameters) != SPAWN_PARAMETERS:
        return False
    servers = _Servers(spawn)
    untyped.spawnv_passfds = servers.spawn
    forkserver.ensure_running()
    if not servers.started:
        untyped.spawnv_passfds = spawn
        servers.dismiss()
    return servers.started > 0


class _Servers:
    """Starts fork servers in place of `util.spawnv_passfds`. Python asks for another when it finds that the last has ended."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._copies = [_Copy() for _ in range(COPIES)]
        # The kernel ends a server with the thread that started it, and a batch's threads end with the batch.
        self._thread = ThreadPoolExecutor(1, "fork server")
        self.started = 0

    def spawn(self, path: str, args: Sequence[str], passfds: Sequence[int]) -> int:
        """Start this command, whatever it is; a fork server from a copy of the engine, while there is one."""
        if args[-2:-1] != ["-c"] or not args[-1].startswith(SERVER_COMMAND):
            return self._spawn(path, args, passfds)
        if self.started:
            logger.warning("The fork server of builds and measurements was killed, and is replaced.")
        self.started += 1
        while self._copies:
            copy = self._copies.pop(0)
            if copy.run(args[-1], passfds):
                return copy.pid
        return self._thread.submit(self._spawn, path, args, passfds).result()

    def dismiss(self) -> None:
        """End the copies that aren't needed."""
        while self._copies:
            self._copies.pop().end()


class _Copy:
    """A fork of this process that waits to become the fork server."""

    def __init__(self) -> None:
        engine = os.getpid()
        self._orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.pid = os.fork()
        if not self.pid:
            _wait(engine, orders)
        orders.close()

    def run(self, command: str, fds: Sequence[int]) -> bool:
        """Have it run Python's command, with these file descriptors; False if it was killed."""
        order = repr((command, list(fds))).encode()
        with self._orders, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._orders, [order], list(fds))
            return True
        os.waitpid(self.pid, 0)
        return False

    def end(self) -> None:
        self._orders.close()
        os.waitpid(self.pid, 0)


def _wait(engine: int, orders: socket.socket) -> NoReturn:
    """Wait for the order, and carry it out."""
    try:
        die_with(engine)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ends hanging workers.
        close_fds_except(orders.fileno())
        order, fds, _, _ = socket.recv_fds(orders, LONGEST_COMMAND, 2)
        if order:
            orders.close()
            command, numbers = ast.literal_eval(order.decode())
            _serve(command, numbers, fds)
    finally:
        os._exit(0)


def _serve(command: str, numbers: Sequence[int], fds: Sequence[int]) -> None:
    """Run Python's command, which expects its file descriptors to have these numbers."""
    out_of_the_way = [fcntl.fcntl(fd, fcntl.F_DUPFD, max(numbers) + 1) for fd in fds]
    for fd, number in zip(out_of_the_way, numbers, strict=True):
        os.dup2(fd, number)
    close_fds_except(*numbers)
    become_fork_server()
    exec(command, {})  # noqa: S102  Python's own command to itself
