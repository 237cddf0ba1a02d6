"""The address `manage.py up` listens on, and the lock that keeps it to one per data folder."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil
from typing_extensions import Self

from tuning.host.locks import lock_file

HEALTH = "/healthz"
"""Path of the health check."""


class Unavailable(Exception):
    """The address or the data folder is in use, or there is no such address; the message says what to do."""


@dataclass
class Address:
    """A listening socket, and the names by which browsers reach it."""

    host: str
    port: int
    socket: socket.socket

    @classmethod
    def bind(cls, host: str, port: int) -> Self:
        """Raises `Unavailable`."""
        try:
            family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            listening = socket.create_server(place[:2], family=family, backlog=128)
        except OSError as error:
            raise Unavailable(_advice(host, port, error)) from error
        return cls(host, listening.getsockname()[1], listening)

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.socket.getsockname()[0]).is_loopback

    @property
    def names(self) -> list[str]:
        """Names and IP addresses of the site, as ALLOWED_HOSTS takes them; the best one first."""
        if not ipaddress.ip_address(self.socket.getsockname()[0]).is_unspecified:
            return [_bracketed(self.host)]
        return list(dict.fromkeys(_bracketed(name) for name in (socket.gethostname(), socket.getfqdn(), *_addresses())))

    def url(self, name: str | None = None) -> str:
        return f"http://{name or self.names[0]}:{self.port}"


def _addresses() -> list[str]:
    families = {socket.AF_INET, socket.AF_INET6}
    entries = [entry for entries in psutil.net_if_addrs().values() for entry in entries if entry.family in families]
    return [entry.address for entry in entries if "%" not in entry.address]


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _advice(host: str, port: int, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"--host {host}: this machine has no such address."
    reasons = {
        errno.EADDRINUSE: f"Port {port} of {host} is in use. Stop what uses it, or choose another port with --port.",
        errno.EACCES: f"This user may not use port {port}. Choose one above 1023 with --port.",
        errno.EADDRNOTAVAIL: f"--host {host}: this machine has no such address.",
    }
    return reasons.get(error.errno or 0, f"{host}:{port}: {error.strerror or error}.")


class SiteLock:
    """Held by the one `up` of a data folder. The locked file itself says who holds it and where its site is."""

    def __init__(self, var: Path) -> None:
        self.path = var / "up.lock"
        self._lock: AbstractContextManager[int] = lock_file(self.path, wait=False)
        self._fd: int | None = None

    def __enter__(self) -> Self:
        """Raises `Unavailable` if another `up` holds it."""
        try:
            self._fd = self._lock.__enter__()
        except BlockingIOError:
            raise Unavailable(self._holder()) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fd = None
        self._lock.__exit__(kind, error, trace)

    def tell(self, url: str) -> None:
        """Write down where the site is, for whoever finds the lock held."""
        assert self._fd is not None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps({"pid": os.getpid(), "url": url}).encode(), 0)

    def read(self) -> dict[str, str | int]:
        """What the holder wrote: `pid` and `url`; empty if nobody holds the lock."""
        try:
            said: dict[str, str | int] = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return said if psutil.pid_exists(int(said["pid"])) else {}

    def _holder(self) -> str:
        said = self.read()
        state = f"at {said['url']}, process {said['pid']}" if said else "and is just starting or stopping"
        return (
            f"Tuneboard is already running on {self.path.parent}, {state}."
            " Stop it first, or set TUNEBOARD_VAR to another folder."
        )
