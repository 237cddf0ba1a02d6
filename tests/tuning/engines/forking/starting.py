"""Starts a fork server in a new interpreter and prints where its processes come from.

`python -m tests.tuning.engines.forking.starting CHANGE MARKER` first changes Python's internals (see `CHANGES`). A forked
server has MARKER in its command line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
    reading, writing = context.Pipe(duplex=False)
    process = context.Process(target=report, args=(writing,))
    process.start()
    sys.stdout.write(json.dumps(reading.recv()))
    process.join()


if __name__ == "__main__":
    main()
