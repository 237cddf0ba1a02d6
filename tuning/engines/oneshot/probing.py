"""`python -m tuning.engines.oneshot.probing` answers a `Probe` with `InForce`."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from pathlib import Path

from tuning.engines.confinement import most_processes
from tuning.engines.confinement.calling import libc
from tuning.engines.wire.question import InForce, Probe, ipc_namespace

from . import serving

PRIVATE, ONE_PAGE, REMOVE = 0, 4096, 0
"""Arguments of shmget(2) and shmctl(2): a segment of shared memory without a name, and its end."""


def probe(question: Probe, pipe: serving.Pipe) -> InForce:
    """What confines this process, where an attempt to get around it fails."""
    said = pipe.confined
    makes_memory = _makes_shared_memory()
    is_apart = ipc_namespace() != question.ipc
    return InForce(
        None if _reaches(question.data) else said.files,
        said.network,
        said.processes if said.processes and _is_limited() else None,
        _of_socket(question.socket) if question.socket else None,
        None if _touches(question.data) else said.metadata,
        said.ipc if is_apart or not makes_memory else None,
        None if makes_memory or _makes_namespaces() else said.calls,
    )


def _makes_shared_memory() -> bool:
    """Whether it can have memory that outlives it. The filter forbids that, even in a namespace where it would be harmless."""
    segment = libc().shmget(PRIVATE, ctypes.c_size_t(ONE_PAGE), 0o600)
    return bool(segment >= 0 and libc().shmctl(segment, REMOVE, None) == 0)


def _makes_namespaces() -> bool:
    """Whether it may ask for namespaces; it asks for none."""
    return bool(libc().unshare(0) == 0)


def _touches(folder: str) -> bool:
    """Whether it can set the folder's times, to what they are."""
    try:
        known = Path(folder).stat()
        os.utime(folder, ns=(known.st_atime_ns, known.st_mtime_ns))
    except OSError:
        return False
    return True


def _reaches(folder: str) -> bool:
    try:
        os.listdir(folder)  # noqa: PTH208 - says only whether it may
    except (PermissionError, FileNotFoundError):  # The latter where it is covered.
        return False
    return True


def _is_limited() -> bool:
    """Whether it can't start more processes than it may have."""
    started: list[int] = []
    try:
        while len(started) <= most_processes():
            if not (child := os.fork()):
                signal.pause()
            started.append(child)
    except BlockingIOError:
        return True
    finally:
        for child in started:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return False


def _of_socket(path: str) -> str | None:
    """What keeps it from the server behind the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        try:
            client.connect(path)
            client.sendall(b"PING\r\n")
            return "password" if client.recv(64).startswith(b"-NOAUTH") else None
        except OSError:
            return "out of reach"


def main() -> None:
    serving.serve(Probe, lambda question, pipe: pipe.send(probe(question, pipe)), "It can't be told")


if __name__ == "__main__":
    main()
