"""Starts a fork server in a new interpreter and prints where its processes come from.

`python -m tests.tuning.engines.forking.starting CHANGE MARKER [KILLS]` first changes Python's internals (see `CHANGES`). A
forked server has MARKER in its command line. The server is killed KILLS times, and its processes are reported on each time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from tuning.engines.forking import fork_server

untyped_util: Any = util
untyped_fork_server: Any = fork_server
spawn = untyped_util.spawnv_passfds
MARKER = "marker"
NEEDED = "tests.tuning.engines.faults"
"""A module that this process doesn't otherwise import."""


def report(pipe: Connection) -> None:
    """Report, from a process of the context, on itself and on its parent, which is the server."""
    server = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
    pipe.send({"forked": MARKER.encode() in server, "loaded": NEEDED in sys.modules})


def lacks_the_function() -> None:
    untyped_fork_server.util = SimpleNamespace()


def has_another_signature() -> None:
    def spawnv_passfds(path: str, args: Sequence[str], passfds: Sequence[int], env: Any = None) -> Any:
        return spawn(path, args, passfds)

    untyped_util.spawnv_passfds = spawnv_passfds


def has_another_command_line() -> None:
    def with_an_argument(path: str, args: Sequence[str], passfds: Sequence[int]) -> Any:
        return untyped_util.spawnv_passfds(path, [*args, "more"], passfds)

    _for_the_server(with_an_argument)


def uses_another_function() -> None:
    _for_the_server(spawn)


def _for_the_server(start: Callable[..., Any]) -> None:
    names = {name: getattr(util, name) for name in dir(util)}
    forkserver.util = SimpleNamespace(**names | {"spawnv_passfds": start})  # type: ignore[attr-defined]


CHANGES: dict[str, Callable[[], None]] = {
    "unchanged": lambda: None,
    "without-the-function": lacks_the_function,
    "another-signature": has_another_signature,
    "another-command-line": has_another_command_line,
    "another-function": uses_another_function,
}


def main() -> None:
    CHANGES[sys.argv[1]]()
    context = fork_server.start_fork_server([NEEDED])
    reports = [reported(context)]
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 0):
        kill(server())
        # As a batch does, whose threads end with it.
        thread = threading.Thread(target=lambda: reports.append(reported(context)))
        thread.start()
        thread.join()
        time.sleep(0.2)
        reports[-1]["outlives_its_thread"] = psutil.pid_exists(server()) and not ended(server())
    sys.stdout.write(json.dumps(reports))


def server() -> int:
    pid: int = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return pid


def ended(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    while not ended(pid):
        time.sleep(0.01)


def reported(context: ForkServerContext) -> dict[str, Any]:
    reading, writing = context.Pipe(duplex=False)
    process = context.Process(target=report, args=(writing,))
    process.start()
    said: dict[str, Any] = reading.recv()
    process.join()
    return said


if __name__ == "__main__":
    main()
