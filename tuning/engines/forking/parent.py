"""The warm parent of engines: `python -m tuning.engines.forking.parent MODULE --kind KIND --requests-fd FD`.

It has the engine's MODULE and TVM loaded for targets of that KIND, runs nothing itself, and forks an engine for each
request. So a run begins with no import, and with nothing of the runs before.

FD is a Unix socket of packets. The parent sends `READY` once it has loaded. A request is any packet with four file descriptors: the engine's stdin, its console
log, its events, and a stream socket on which a line tells the engine's process id, and another its exit status
(negative: the signal that killed it) once it has ended. The parent ends with the other end of the socket, and when
what it has loaded isn't what is installed any more.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import psutil

from tuning.engines.wire import versions
from tuning.engines.wire.protocol import READY

from . import fork_server

_MADV_DONTNEED = 4
ENGINES = Path(__file__).parent.parent
"""The folder of the engines' sources."""
Main = Callable[[Sequence[str]], None]


def main() -> None:
    """Load, then fork until nobody asks any more."""
    parser = argparse.ArgumentParser(prog="python -m tuning.engines.forking.parent")
    parser.add_argument("module", help="the engine's package")
    parser.add_argument("--kind", required=True, help="of targets: llvm, cuda")
    parser.add_argument("--requests-fd", type=int, required=True, help="a Unix socket of packets")
    args = parser.parse_args()
    loaded = _installed()
    engine = importlib.import_module(f"{args.module}.engine")
    engine.prepare(args.kind)
    # What is never collected stays in memory that the engines share.
    gc.collect()
    gc.freeze()
    _unmap_clean_pages()
    with socket.socket(fileno=args.requests_fd) as requests:
        _serve(requests, engine.main, loaded)


def _unmap_clean_pages() -> None:
    """Give back what is a copy of a library's file: engines get it from the kernel's cache, as they need it."""
    libc = ctypes.CDLL(None)
    for area in psutil.Process().memory_maps(grouped=False):
        # Without pages that were written to before they were protected (relocations).
        if area.path.startswith("/") and "w" not in area.perms and not area.anonymous:
            start, end = (int(address, 16) for address in area.addr.split("-"))
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def _serve(requests: socket.socket, engine: Main, loaded: object) -> None:
    requests.send(READY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel forgets minders as they end.
    while True:
        request, fds, _, _ = socket.recv_fds(requests, 64, 4)
        if not request or _installed() != loaded:
            return
        if os.fork() == 0:
            requests.close()
            _mind(engine, *fds)
        for fd in fds:
            os.close(fd)


def _installed() -> object:
    """What tells one installation from another."""
    sources = sorted(ENGINES.rglob("*.py"))
    return versions.in_use(), [(str(path), path.stat().st_mtime_ns) for path in sources]


def _mind(main: Main, stdin: int, console: int, events: int, status: int) -> NoReturn:
    """Fork the engine and tell how it ends. A process of its own, so that a run needs the warm parent no longer."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    engine = os.fork()
    if engine == 0:
        _become_engine(main, stdin, console, events)
    try:
        for fd in (stdin, console, events):
            os.close(fd)
        os.write(status, b"%d\n" % engine)
        # Left a zombie, so that its number is nobody else's until the supervisor needs it no more.
        ended = os.waitid(os.P_PID, engine, os.WEXITED | os.WNOWAIT)
        assert ended
        by_itself = ended.si_code == os.CLD_EXITED
        os.write(status, b"%d\n" % (ended.si_status if by_itself else -ended.si_status))
        os.read(status, 1)
        os.waitpid(engine, 0)
    finally:
        os._exit(0)


def _become_engine(main: Main, stdin: int, console: int, events: int) -> NoReturn:
    os.setsid()
    for fd, standard in ((stdin, 0), (console, 1), (console, 2)):
        os.dup2(fd, standard)
    fork_server.close_fds_except(events)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # Python's own generator does this itself after a fork.
    status = 1
    try:
        main(["--events-fd", str(events)])
        status = 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 1
    except BaseException:  # noqa: BLE001  as the interpreter does it
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
