"""What an upload might try once its code runs. Without imports of ours: it is also copied to where a confined process finds it.

TVM_HOSTILE_VAR is the site's data folder, TVM_HOSTILE_PORT a port of this machine where somebody listens, TVM_HOSTILE_SOCKET a
Valkey's socket.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

VAR = Path(os.environ.get("TVM_HOSTILE_VAR", "."))
PORT = int(os.environ.get("TVM_HOSTILE_PORT", "0"))
SOCKET = os.environ.get("TVM_HOSTILE_SOCKET", "")
PROGRAMS = Path(__file__).parent
LEFT_BEHIND_S = os.environ.get("TVM_HOSTILE_SLEEP", "600")
"""By which the test knows its own."""
NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000
MANY = 3000
LARGE = 5 << 30
WITHOUT_NAMESPACES = {
    "read the environment of its parent",
    "send by UDP",
    "fork without end",
    "see the site's processes",
    "connect to a socket in /tmp",
}
"""What may succeed where a process can't have namespaces of its own."""


def connect_by_tcp() -> None:
    socket.create_connection(("127.0.0.1", PORT), timeout=2).close()


def send_by_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"secret", ("127.0.0.1", PORT))


def command_valkey() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        client.connect(SOCKET)
        client.sendall(b"PING\r\n")
        if not client.recv(64).startswith(b"+PONG"):
            raise PermissionError("Valkey asks for a password")


def connect_to_a_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(VAR / "socket"))


def fork_without_end() -> None:
    started: list[int] = []
    try:
        while len(started) < MANY:
            if not (child := os.fork()):
                os.setsid()
                signal.pause()
            started.append(child)
    finally:
        for child in started:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def become_root() -> None:
    os.setuid(0)
    if os.getresuid() == (0, 0, 0) and len(Path("/proc/self/uid_map").read_text().split()) == 3:
        return
    raise PermissionError


def read_environment() -> None:
    if b"=" not in Path(f"/proc/{os.getppid()}/environ").read_bytes() or os.getpid() == 2:
        raise PermissionError


def kill_parent() -> None:
    """The namespace's first process, which ignores it, isn't the site's."""
    if os.getppid() == 1 and os.getpid() == 2:
        raise PermissionError
    os.kill(os.getppid(), signal.SIGCONT)


def uncover_folders() -> None:
    """In a child, which loses its privileges by the attempt."""
    if not (child := os.fork()):
        os._exit(0 if _uncovers() else 1)
    if os.waitpid(child, 0)[1]:
        raise PermissionError


def _uncovers() -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unshare(NEW_USER | NEW_MOUNTS)
    return any(libc.umount2(folder, 2) == 0 for folder in (b"/tmp", b"/run", b"/proc"))


def write_a_temporary_file() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")


def fill_the_disk() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(LARGE)


def see_processes() -> None:
    """Of the namespace there are few: the first, this one and its children."""
    seen = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    if os.getpid() == 2 and len(seen) < 20:
        raise PermissionError


ATTEMPTS: dict[str, Callable[[], Any]] = {
    "read the secret key": (VAR / "secret_key").read_text,
    "list the data folder": lambda: list(VAR.iterdir()),
    "write to the data folder": lambda: (VAR / "mine").write_text("x"),
    "read it in a child": lambda: subprocess.run(["cat", VAR / "secret_key"], check=True, capture_output=True),
    "read the home folder": lambda: list(Path.home().iterdir()),
    "read /etc/shadow": lambda: Path("/etc/shadow").read_text(),
    "change a program": lambda: (PROGRAMS / "mine.py").write_text("x"),
    "read the environment of its parent": read_environment,
    "kill its parent": kill_parent,
    "see the site's processes": see_processes,
    "connect by TCP": connect_by_tcp,
    "send by UDP": send_by_udp,
    "give Valkey a command": command_valkey,
    "connect to a socket in /tmp": connect_to_a_socket,
    "fork without end": fork_without_end,
    "become root": become_root,
    "uncover folders": uncover_folders,
    "fill the disk with a file": fill_the_disk,
}


def be_told_that_temporary_files_may_be_written() -> None:
    """As compilers ask: otherwise they write to /tmp."""
    if not os.access(tempfile.gettempdir(), os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError


ALLOWED: dict[str, Callable[[], Any]] = {
    "write a temporary file": write_a_temporary_file,
    "be told that temporary files may be written": be_told_that_temporary_files_may_be_written,
    "run a program": lambda: subprocess.run(["true"], check=True),
    "run Python": lambda: subprocess.run([sys.executable, "-c", "import msgspec"], check=True),
    "leave a process behind": lambda: subprocess.Popen(["sleep", LEFT_BEHIND_S]),
    "leave one in a session of its own": lambda: subprocess.Popen(["sleep", LEFT_BEHIND_S], start_new_session=True),
}


def succeeds(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def done() -> list[str]:
    """Which of them succeed."""
    return [name for name, attempt in {**ATTEMPTS, **ALLOWED}.items() if succeeds(attempt)]
