"""TVM's own tracker and RPC servers on loopback, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
from typing_extensions import Self

from tests.live import free_port
from tuning.engines.wire import tracker
from tuning.engines.wire.tracker import Address, TrackerError

KEY = "board"
PATIENCE_S = 60.0


class RpcDevices:
    """A tracker and the servers that were added, each of which stands for a device. Leaving the context kills them all.

    `server` is the program of a device, with `tvm.exec.rpc_server`'s arguments.
    """

    def __init__(
        self, logs: Path, python: str = sys.executable, server: str = "tvm.exec.rpc_server", **env: str
    ) -> None:
        self._logs = logs
        self._python = python
        self._server = server
        self._env = os.environ | env
        self.address = Address("127.0.0.1", free_port())
        self.tracker = self._start("tracker", "tvm.exec.rpc_tracker", self.address.port)
        self.servers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.wait_until_there_are(0)
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.servers, self.tracker):
            kill(process)

    def add(self, count: int = 1, key: str = KEY) -> None:
        """Start servers, which register within seconds."""
        for _ in range(count):
            name = f"server{len(self.servers)}"
            port = free_port()
            self.servers.append(self._start(name, self._server, port, "--tracker", str(self.address), "--key", key))

    def wait_until_there_are(self, count: int, key: str = KEY) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if tracker.summary(self.address).total(key) == count:
                    return
            except TrackerError:
                assert self.tracker.poll() is None, self._logs.joinpath("tracker.log").read_text()
            time.sleep(0.1)
        raise AssertionError(f"There were never {count} devices with the key {key}.")

    def loaded(self, server: int) -> int:
        """How many candidates the server has loaded to measure them."""
        return (self._logs / f"server{server}.log").read_text().count("load_module")

    def wait_until_it_measures(self, server: int) -> None:
        """Wait until the server has loaded one more candidate."""
        before, deadline = self.loaded(server), time.monotonic() + PATIENCE_S
        while self.loaded(server) == before:
            assert time.monotonic() < deadline, f"Server {server} never loaded another candidate."
            time.sleep(0.01)

    def _start(self, name: str, module: str, port: int, *more: str) -> subprocess.Popen[bytes]:
        command = [self._python, "-m", module, "--host", "127.0.0.1", "--port", str(port), *more]
        with (self._logs / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*command, "--port-end", str(port + 1)], stdout=log, stderr=log, start_new_session=True, env=self._env
            )


def processes(server: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The server's process and its descendants."""
    with suppress(psutil.Error):
        first = psutil.Process(server.pid)
        return [first, *first.children(recursive=True)]
    return []


def kill(server: subprocess.Popen[bytes]) -> None:
    """Kill the server with its descendants, like a machine that loses power."""
    for process in processes(server):
        with suppress(psutil.Error):
            process.kill()
    server.wait()
