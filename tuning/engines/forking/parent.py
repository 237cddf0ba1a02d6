"""The warm parent of engines: `python -m tuning.engines.forking.parent MODULE --kind KIND --requests-fd FD`.

It loads the engine's MODULE, and TVM for targets of this KIND, runs nothing itself, and forks an engine for each
request. So a run starts without any import, and without anything left over from earlier runs.

FD is a Unix socket of packets. The parent sends `READY` when it has loaded. A request is a packet with the module to run, MODULE
or another one that shares most of what it loads, and four file
descriptors: the engine's stdin, its console log, its events, and a stream socket. On that socket the parent's child
sends one line with the engine's pid and, when the engine has ended, another with its exit status (or the negative
number of the signal that killed it). The parent ends when the socket is closed, or when the installed packages or
sources are no longer those that it has loaded.
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
"""The folder with the engines' sources."""
LONGEST_NAME = 200
Main = Callable[[Sequence[str]], None]


def main() -> None:
    """Load, then fork engines until the socket is closed."""
    parser = argparse.ArgumentParser(prog="python -m tuning.engines.forking.parent")
    parser.add_argument("module", help="the engine's package")
    parser.add_argument("--kind", required=True, help="the targets' kind: llvm, cuda")
    parser.add_argument("--requests-fd", type=int, required=True, help="file descriptor of a Unix socket of packets")
    args = parser.parse_args()
    loaded = _installed()
    engine = importlib.import_module(f"{args.module}.engine")
    engine.prepare(args.kind)
    # Frozen objects are never collected, so their memory stays shared with the engines.
    gc.collect()
    gc.freeze()
    _unmap_clean_pages()
    with socket.socket(fileno=args.requests_fd) as requests:
        _serve(requests, loaded)


def _unmap_clean_pages() -> None:
    """Release memory that only mirrors library files: engines get it from the page cache when they need it."""
    libc = ctypes.CDLL(None)
    for area in psutil.Process().memory_maps(grouped=False):
        # Not those with pages that were written before they were protected (relocations).
        if area.path.startswith("/") and "w" not in area.perms and not area.anonymous:
            start, end = (int(address, 16) for address in area.addr.split("-"))
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def _serve(requests: socket.socket, loaded: object) -> None:
    requests.send(READY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps minders as they end.
    while True:
        request, fds, _, _ = socket.recv_fds(requests, LONGEST_NAME, 4)
        if not request or _installed() != loaded:
            return
        if os.fork() == 0:
            requests.close()
            _mind(request.decode(), *fds)
        for fd in fds:
            os.close(fd)


def _installed() -> object:
    """Identifies what is installed: versions of packages, and our sources."""
    sources = sorted(ENGINES.rglob("*.py"))
    return versions.in_use(), [(str(path), path.stat().st_mtime_ns) for path in sources]


def _mind(module: str, stdin: int, console: int, events: int, status: int) -> NoReturn:
    """Fork the engine and report how it ends. This is a separate process, so that the run can outlive the parent."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    engine = os.fork()
    if engine == 0:
        _become_engine(module, stdin, console, events)
    try:
        for fd in (stdin, console, events):
            os.close(fd)
        os.write(status, b"%d\n" % engine)
        # Leave it a zombie, so that its pid isn't reused until the supervisor is done with it.
        ended = os.waitid(os.P_PID, engine, os.WEXITED | os.WNOWAIT)
        assert ended
        exited = ended.si_code == os.CLD_EXITED
        os.write(status, b"%d\n" % (ended.si_status if exited else -ended.si_status))
        os.read(status, 1)
        os.waitpid(engine, 0)
    finally:
        os._exit(0)


def _become_engine(module: str, stdin: int, console: int, events: int) -> NoReturn:
    os.setsid()
    for fd, standard in ((stdin, 0), (console, 1), (console, 2)):
        os.dup2(fd, standard)
    fork_server.close_fds_except(events)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # Python reseeds its own generator after a fork.
    status = 1
    try:
        main: Main = importlib.import_module(f"{module}.engine").main
        main(["--events-fd", str(events)])
        status = 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 1
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
