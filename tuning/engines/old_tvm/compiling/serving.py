"""A process that answers one question and ends: a JSON `wire.question.Question` on stdin, JSON lines on stdout.

`confinement.starting` has limited and confined it before it became this program.
"""

import errno
import json
import logging
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any, Callable, Optional

from tuning.engines.old_tvm import loading
from tuning.engines.old_tvm.pipes import Message
from tuning.engines.old_tvm.refusing import Refused

LONGEST_REASON = 1000
"""Characters, as in `oneshot.serving`."""
FULL_BYTES = 1 << 20
"""A disk with fewer free bytes counts as full: TVM writes files without checking whether that worked."""


class Pipe:
    """Standard output, reserved for answers."""

    def __init__(self) -> None:
        self._out = loading.private_stdout()

    def send(self, kind: str, **fields: Any) -> None:
        """Send an answer of `wire.compiling` or `wire.question`."""
        self._out.write(json.dumps(dict(fields, type=kind)) + "\n")
        self._out.flush()

    def tell(self, phase: str, progress: Optional[float] = None) -> None:
        """Say what the process is doing from now on, as a step too, which is quoted if the process dies."""
        self.send("step", text=phase.capitalize())
        self.send("phase", name=phase, progress=progress)


def serve(answer: Callable[[Message, Pipe], None], failure: str) -> None:
    """Answer the question. `failure` begins the text of an error that nobody foresaw."""
    pipe = Pipe()
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s [%(levelname)s] %(message)s")
    logging.getLogger("tuneboard").setLevel(logging.INFO)
    question = json.load(sys.stdin)
    try:
        loading.prepare()
        answer(question, pipe)
    except Exception as error:  # noqa: BLE001  a page must show something better than a traceback
        pipe.send("refused", error=_reason(error, question, failure))


def _reason(error: Exception, question: Message, failure: str) -> str:
    folder = Path(question["folder"])
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    if full or (folder.exists() and shutil.disk_usage(str(folder)).free < FULL_BYTES):
        return f"The disk is full: there is no room for the library in {folder.parent}."
    if isinstance(error, Refused):
        text = str(error)
        return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + "…"
    traceback.print_exc()
    lacking = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if lacking or isinstance(error, MemoryError) or "bad_alloc" in str(error):  # The latter comes from TVM's passes.
        return "It needs more than the {:,} MiB of memory that it may use here.".format(question["memory_mb"])
    return f"{failure}: {loading.in_one_line(error)}"
