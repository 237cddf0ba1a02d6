"""A sandboxed process that resolves every target the same way, or does what TVM_FAKE_CHILD says: `python -m tests.fake_child`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tuning.engines.oneshot import serving
from tuning.engines.wire.targets import Resolve, TargetInfo

MIB = 1 << 20
PIPES: list[int] = []


def _spin() -> None:
    while True:
        pass


def _crash() -> None:
    os.write(2, b"LLVM ERROR: out of registers\n")
    os.kill(os.getpid(), signal.SIGSEGV)


def _look() -> dict[str, Any]:
    """What the process finds around it."""
    return {"environment": dict(os.environ), "files": [path.name for path in Path().iterdir()]}


def _say(line: bytes, *, times: int = 1) -> None:
    """Send what the pipe for answers gets, around it."""
    with os.fdopen(os.dup(PIPES[0]), "wb") as pipe:
        for _ in range(times):
            pipe.write(line)


def _print() -> None:
    for _ in range(100):
        os.write(2, b"x" * MIB)
    time.sleep(600)


WAYS = {
    "": lambda: {"kind": "llvm"},
    "deep": lambda: _say(b'{"type":"TargetInfo","target":' + b"[" * 100_000 + b"\n"),
    "endless answers": lambda: _say(b'{"type":"step","text":"' + b"x" * MIB + b'"}\n', times=300),
    "endless line": lambda: _say(b"x" * MIB, times=300),
    "endless print": _print,
    "no JSON": lambda: _say(b"Segmentation fault\n"),
    "no text": lambda: _say(b'{"type":"step","text":"\xff\xfe"}\n'),
    "other kind": lambda: _say(b'{"type":"shown","code":"x"}\n'),
    "wrong type": lambda: _say(b'{"type":"step","text":[1]}\n'),
    "exit": lambda: sys.exit(3),
    "hang": lambda: time.sleep(600),
    "kill": _crash,
    "look": _look,
    "memory": lambda: bytearray(1 << 40) and None,
    "silence": lambda: None,
    "spin": _spin,
}


def _answer(_question: Resolve, pipe: serving.Pipe) -> None:
    PIPES.append(pipe._fd)
    pipe.step("Misbehaving")
    target: Any = WAYS[os.environ.get("TVM_FAKE_CHILD", "")]()
    if target:
        pipe.send(TargetInfo(target, "cpu", float16=True, warning=None))


if __name__ == "__main__":
    serving.serve(Resolve, _answer, "It can't be resolved")
