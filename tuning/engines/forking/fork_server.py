"""Python's fork server, itself forked from an engine that has TVM loaded and hasn't started a thread.

Loading TVM takes more than a second of CPU. A fork takes milliseconds and shares the memory.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from tuning.engines.wire.lifeline import die_with

logger = logging.getLogger("tuneboard")
Spawn = Callable[[str, Sequence[str], Sequence[int]], int]
"""`util.spawnv_passfds`: starts the executable with these arguments and file descriptors, and returns its pid."""
SPAWN_PARAMETERS = ["path", "args", "passfds"]
SERVER_COMMAND = "from multiprocessing.forkserver import main; "
"""What Python hands to `python -c` to start its fork server begins with this."""


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
    forked: list[int] = []

    def fork(path: str, args: Sequence[str], passfds: Sequence[int]) -> int:
        if args[-2:-1] != ["-c"] or not args[-1].startswith(SERVER_COMMAND):
            return spawn(path, args, passfds)
        forked.append(_fork(args[-1], passfds))
        return forked[0]

    untyped.spawnv_passfds = fork
    try:
        forkserver.ensure_running()
    finally:
        untyped.spawnv_passfds = spawn
    return bool(forked)


def _fork(command: str, fds: Sequence[int]) -> int:
    engine = os.getpid()
    if server := os.fork():
        return server
    try:
        die_with(engine)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ends hanging workers.
        close_fds_except(*fds)
        exec(command, {})  # noqa: S102  Python's own command to itself
    finally:
        os._exit(0)
