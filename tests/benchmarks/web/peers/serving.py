"""Runs a peer's server, measures its memory, and ends it with all its processes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil

from tuning.engines.wire.lifeline import die_with

from .catalog import Request

STOP_S = 10.0
SAMPLED_S = 0.25
PIECE = 1 << 20
POLL_S = 0.1
HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip"}


class NoAnswer(Exception):
    """Its text says why there is no figure."""


class Server:
    """A server started by a command; `memory` is the sampled peak of its processes' memory (PSS)."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, said: Path) -> None:
        self.process, self.port, self.said = process, port, said
        self.memory = 0

    def ask(self, request: Request, until: float) -> tuple[float, int]:
        """Returns the seconds until the last byte of the body, and its bytes as sent.

        Raises `NoAnswer`, also if it takes longer than `until` (monotonic clock).
        """
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_left(until))
        with closing(connection):
            try:
                size = self._read(connection, request, until)
            except TimeoutError as late:
                raise NoAnswer(f"more than {until - began:,.0f} s") from late
            except (OSError, http.client.HTTPException) as broken:
                raise NoAnswer(f"no answer: {broken!r}{self._ended()}") from broken
        return time.monotonic() - began, size

    def _read(self, connection: http.client.HTTPConnection, request: Request, until: float) -> int:
        body = None if request.body is None else json.dumps(request.body)
        headers = HEADERS if body is None else {**HEADERS, "Content-Type": "application/json"}
        connection.request("GET" if body is None else "POST", request.path, body, headers)
        sock = connection.sock  # The connection drops it when the server is going to close it.
        sock.settimeout(_left(until))
        response = connection.getresponse()
        size = 0
        while not response.isclosed():
            sock.settimeout(_left(until))
            if not (piece := response.read1(PIECE)):
                break
            size += len(piece)
        if response.status != 200:
            raise NoAnswer(f"answered {response.status}")
        return size

    def _ended(self) -> str:
        status = self.process.poll()
        return "" if status is None else f"; its server ended with status {status}: {self.said.read_text()[-500:]}"

    def wait(self, path: str, until: float) -> None:
        """Waits until it answers. Raises `NoAnswer` if it ends or isn't ready in time."""
        while True:
            with suppress(NoAnswer):
                self.ask(Request(path), min(until, time.monotonic() + STOP_S))
                return
            if self.process.poll() is not None:
                raise NoAnswer(f"its server didn't start{self._ended()}")
            if time.monotonic() > until:
                raise NoAnswer("its server didn't answer in time")
            time.sleep(POLL_S)

    def sample(self, ended: threading.Event) -> None:
        """Samples memory until the event is set."""
        while not ended.wait(SAMPLED_S):
            with suppress(psutil.Error):
                family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
                self.memory = max(self.memory, sum(int(one.memory_full_info().pss) for one in family))


@contextmanager
def serving(command: Sequence[str], env: dict[str, str], port: int, folder: Path) -> Iterator[Server]:
    """Runs the server in the folder, which gets its output; on exit its whole process group is ended."""
    ours = os.getpid()
    said = folder / "server.txt"
    with said.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: die_with(ours),  # noqa: PLW1509 - the command has one thread when it starts one
        )
    server, ended = Server(process, port, said), threading.Event()
    sampler = threading.Thread(target=server.sample, args=[ended], name="memory")
    sampler.start()
    try:
        yield server
    finally:
        ended.set()
        sampler.join()
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a session leader and all its descendants, by SIGTERM first."""
    family = []
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    _, stubborn = psutil.wait_procs(family, timeout=STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for one in stubborn:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


def free_port() -> int:
    """A free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _left(until: float) -> float:
    """Seconds left; a socket's timeout must be positive."""
    return max(0.01, until - time.monotonic())
