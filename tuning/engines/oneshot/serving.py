"""The child's side of the sandbox: a process that answers one question and ends.

It reads a JSON `Question` from stdin and writes JSON lines: any number of `Step`s and answers, or a `Refusal`. It limits its own
memory, processor time and reach before it loads TVM; the parent, `tuning.host.sandbox`, limits the time on the clock.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

import msgspec

from tuning.engines.confinement import confine, limit
from tuning.engines.wire import versions
from tuning.engines.wire.compiling import Phase, PhaseName
from tuning.engines.wire.errors import Refused, in_one_line, is_out_of_memory
from tuning.engines.wire.lifeline import die_with
from tuning.engines.wire.question import InForce, Question, Refusal, Step

Asked = TypeVar("Asked", bound=Question)
LONGEST_REASON = 1000
"""Characters. Reasons quote names from the file, which may be of any length."""


class Pipe:
    """Standard output, reserved for answers. TVM and its importers print to stdout too: from now on that goes to stderr."""

    confined: InForce
    """What confines this process."""

    def __init__(self) -> None:
        self._fd = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(self, answer: msgspec.Struct) -> None:
        line = memoryview(msgspec.json.encode(answer) + b"\n")
        while line:
            line = line[os.write(self._fd, line) :]

    def step(self, text: str) -> None:
        """Say what the process is doing from now on."""
        self.send(Step(text))


def tell(pipe: Pipe, name: PhaseName, progress: float | None = None) -> None:
    """Say what a process that builds or proves a library is doing from now on. It is sent as a step too, which is quoted if the process dies."""
    pipe.step(name.capitalize())
    pipe.send(Phase(name, progress))


def serve(kind: type[Asked], answer: Callable[[Asked, Pipe], None], failure: str) -> None:
    """Answer the question on stdin. `failure` begins the text of an error that nobody foresaw."""
    die_with(os.getppid())
    pipe = Pipe()
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
    limit(question.memory_mb, question.cpu_s, quietly=question.quietly)
    pipe.confined = confine(question.reach())
    if trouble := versions.problem():
        pipe.send(Refusal(trouble))
        return
    try:
        answer(question, pipe)
    except Exception as error:  # noqa: BLE001  a page must show something better than a traceback
        pipe.send(_refusal(error, question.memory_mb, failure))


def _refusal(error: Exception, memory_mb: int, failure: str) -> Refusal:
    if isinstance(error, Refused):
        text = str(error)
        return Refusal(text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}…", error.dims)
    traceback.print_exc()
    if is_out_of_memory(error):
        return Refusal(f"It needs more than the {memory_mb:,} MiB of memory that it may use here.")
    return Refusal(f"{failure}: {in_one_line(error)}")
