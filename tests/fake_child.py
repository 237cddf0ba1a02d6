"""A sandboxed process that resolves every target the same way, or misbehaves as FAKE_CHILD says: `python -m tests.fake_child`."""

from __future__ import annotations

import os
import signal
import sys
import time

from tuning.engines.oneshot import serving
from tuning.engines.wire.targets import Resolve, TargetInfo


def _answer(_question: Resolve, pipe: serving.Pipe) -> None:
    pipe.step("Misbehaving")
    how = os.environ.get("FAKE_CHILD")
    if how == "hang":
        time.sleep(600)
    elif how == "spin":
        while True:
            pass
    elif how == "memory":
        bytearray(1 << 40)
    elif how == "kill":
        os.write(2, b"LLVM ERROR: out of registers\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "exit":
        sys.exit(3)
    elif how != "silence":
        pipe.send(TargetInfo({"kind": "llvm"}, "cpu", float16=True, warning=None))


if __name__ == "__main__":
    serving.serve(Resolve, _answer, "It can't be resolved")
