"""TVM in memory and not one thread started: the state from which engines and their workers are forked.

Loading TVM takes a second and more of CPU; a fork takes milliseconds and shares the memory.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from tuning.engines.wire.lifeline import die_with


def start_fork_server() -> ForkServerContext:
    """Processes of this context are forked from one that is forked from this one now, with all that it has loaded.

    To be called from the main thread, with whose end the server ends, before another thread is started.
    """
    if threading.active_count() > 1:
        raise RuntimeError("A process with threads can't be forked: one of them may hold a lock.")
    # An engine ends without the interpreter's ending, and Python's tracker then removes what is left, as it should.
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker:UserWarning"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([])
    resource_tracker.ensure_running()
    with _forking():
        forkserver.ensure_running()
    return context


def keep_only(*fds: int) -> None:
    """Close every file descriptor but these and the standard three."""
    for fd in [int(path.name) for path in Path("/dev/fd").iterdir()]:
        if fd > 2 and fd not in fds:
            with contextlib.suppress(OSError):  # The one that listed them.
                os.close(fd)


@contextlib.contextmanager
def _forking() -> Iterator[None]:
    """Meanwhile Python starts its fork server, `python -c COMMAND`, in a fork instead of a new interpreter."""
    untyped: Any = util
    spawn, untyped.spawnv_passfds = untyped.spawnv_passfds, _fork
    try:
        yield
    finally:
        untyped.spawnv_passfds = spawn


def _fork(_path: str, args: Sequence[str], fds: Sequence[int]) -> int:
    engine = os.getpid()
    if server := os.fork():
        return server
    try:
        die_with(engine)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # By which hanging workers are ended.
        keep_only(*fds)
        exec(args[-1], {})  # noqa: S102  Python's own command to itself
    finally:
        os._exit(0)
