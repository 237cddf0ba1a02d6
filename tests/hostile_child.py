"""A sandboxed process that does what an upload might try: `python -m tests.hostile_child`.

TVM_HOSTILE_VAR is the site's data folder, TVM_HOSTILE_PORT a port of this machine where somebody listens.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuning.engines.oneshot import serving
from tuning.engines.wire.targets import Resolve, TargetInfo

VAR = Path(os.environ.get("TVM_HOSTILE_VAR", "."))
PORT = int(os.environ.get("TVM_HOSTILE_PORT", "0"))
PARENT = os.getppid()
LEFT_BEHIND_S = "607.25"
OF_OTHERS = {"read the environment of its parent"}
"""What root may do unless it is in a user namespace."""


def connect_by_tcp() -> None:
    socket.create_connection(("127.0.0.1", PORT), timeout=2).close()


def send_by_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"secret", ("127.0.0.1", PORT))


def write_a_temporary_file() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")


ATTEMPTS: dict[str, Callable[[], Any]] = {
    "read the secret key": (VAR / "secret_key").read_text,
    "list the data folder": lambda: os.listdir(VAR),  # noqa: PTH208
    "write to the data folder": lambda: (VAR / "mine").write_text("x"),
    "read it in a child": lambda: subprocess.run(["cat", VAR / "secret_key"], check=True, capture_output=True),
    "read the home folder": lambda: os.listdir(Path.home()),  # noqa: PTH208
    "read /etc/shadow": lambda: Path("/etc/shadow").read_text(),
    "change a program": lambda: (Path(serving.__file__).parent / "mine.py").write_text("x"),
    "read the environment of its parent": lambda: Path(f"/proc/{PARENT}/environ").read_bytes(),
    "kill its parent": lambda: os.kill(PARENT, signal.SIGCONT),
    "connect by TCP": connect_by_tcp,
    "send by UDP": send_by_udp,
}
ALLOWED: dict[str, Callable[[], Any]] = {
    "write a temporary file": write_a_temporary_file,
    "run a program": lambda: subprocess.run(["true"], check=True),
    "leave a process behind": lambda: subprocess.Popen(["sleep", LEFT_BEHIND_S]),
}


def _succeeds(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _answer(_question: Resolve, pipe: serving.Pipe) -> None:
    done = {name: _succeeds(attempt) for name, attempt in {**ATTEMPTS, **ALLOWED}.items()}
    pipe.send(TargetInfo(done, "cpu", float16=True, warning=None))


if __name__ == "__main__":
    serving.serve(Resolve, _answer, "It can't be done")
