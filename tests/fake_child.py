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


def _spin() -> None:
    while True:
        pass


def _crash() -> None:
    os.write(2, b"LLVM ERROR: out of registers\n")
    os.kill(os.getpid(), signal.SIGSEGV)


def _look() -> dict[str, Any]:
    """What the process finds around it."""
    return {"environment": dict(os.environ), "files": [path.name for path in Path().iterdir()]}


WAYS = {
    "": lambda: {"kind": "llvm"},
    "exit": lambda: sys.exit(3),
    "hang": lambda: time.sleep(600),
    "kill": _crash,
    "look": _look,
    "memory": lambda: bytearray(1 << 40) and None,
    "silence": lambda: None,
    "spin": _spin,
}


def _answer(_question: Resolve, pipe: serving.Pipe) -> None:
    pipe.step("Misbehaving")
    target: Any = WAYS[os.environ.get("TVM_FAKE_CHILD", "")]()
    if target:
        pipe.send(TargetInfo(target, "cpu", float16=True, warning=None))


if __name__ == "__main__":
    serving.serve(Resolve, _answer, "It can't be resolved")
