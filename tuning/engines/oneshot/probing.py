"""`python -m tuning.engines.oneshot.probing` answers a `Probe` with `InForce`."""

from __future__ import annotations

import os
import signal
import socket

from tuning.engines.confinement import most_processes
from tuning.engines.wire.question import InForce, Probe

from . import serving


def probe(question: Probe, pipe: serving.Pipe) -> InForce:
    """What confines this process, where an attempt to get around it fails."""
    said = pipe.confined
    return InForce(
        None if _reaches(question.data) else said.files,
        said.network,
        said.processes if said.processes and _is_limited() else None,
        _of_socket(question.socket) if question.socket else None,
    )


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
