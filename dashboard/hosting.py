"""Where `manage.py up` is reached, and that it runs once for each data folder."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil
from typing_extensions import Self

HEALTH = "/healthz"
"""Where the site tells whether it serves."""


class Unavailable(Exception):
    """The address can't be had, or the data folder is in use; the message says why and what to do."""


@dataclass
class Address:
    """A bound, listening socket, and the names by which browsers reach it."""

    host: str
    port: int
    socket: socket.socket

    @classmethod
    def bind(cls, host: str, port: int) -> Self:
        """Takes the port. Raises `Unavailable`."""
        try:
            family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            listening = socket.create_server(place[:2], family=family, backlog=128)
        except OSError as error:
            raise Unavailable(_advice(host, port, error)) from error
        return cls(host, listening.getsockname()[1], listening)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.socket.getsockname()[0]).is_loopback

    @property
    def names(self) -> list[str]:
        """Names and addresses by which it is reached, as ALLOWED_HOSTS takes them; the best one first."""
        if not ipaddress.ip_address(self.socket.getsockname()[0]).is_unspecified:
            return [_bracketed(self.host)]
        return list(dict.fromkeys(_bracketed(name) for name in (socket.gethostname(), socket.getfqdn(), *_addresses())))

    def url(self, name: str | None = None) -> str:
        """Scheme, host and port."""
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
        errno.EADDRINUSE: f"Port {port} of {host} is in use. Stop what uses it, or choose another one with --port.",
        errno.EACCES: f"Port {port} may not be used by this user. Choose one above 1023 with --port.",
        errno.EADDRNOTAVAIL: f"--host {host}: this machine has no such address.",
    }
    return reasons.get(error.errno or 0, f"{host}:{port}: {error.strerror or error}.")


class SiteLock:
    """Held by the one `up` of a data folder; the kernel lets go of it however its holder ends."""

    def __init__(self, var: Path) -> None:
        self.path = var / "up.lock"
        self._fd: int | None = None

    def __enter__(self) -> Self:
        """Raises `Unavailable` when another `up` holds it."""
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                raise Unavailable(self._holder()) from None
            if _is_at(self.path, fd):
                self._fd = fd
                return self
            os.close(fd)  # its last holder removed it between our open and our lock

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._fd is not None
        self.path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = None

    def tell(self, url: str) -> None:
        """Notes where the site is, for whoever finds the lock held."""
        assert self._fd is not None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps({"pid": os.getpid(), "url": url}).encode(), 0)

    def read(self) -> dict[str, str | int]:
        """What its holder told; empty when there is none."""
        try:
            said: dict[str, str | int] = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return said if psutil.pid_exists(int(said["pid"])) else {}

    def _holder(self) -> str:
        said = self.read()
        where = f"at {said['url']}, process {said['pid']}" if said else "and is starting or stopping just now"
        return f"Tuneboard runs already on {self.path.parent}, {where}. Stop that one first, or set TUNEBOARD_VAR to another folder."


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
