"""A process that answers one question and then ends, within limits that it sets itself before it loads TVM.

It reads a JSON `Question` on stdin and writes JSON lines: any number of `Step` and of its own answers, or a `Refusal`.
Who asked (`tuning.host.sandbox`) limits its time.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

import msgspec

from tuning.engines.wire import versions
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.lifeline import die_with
from tuning.engines.wire.question import Question, Refusal, Step

Asked = TypeVar("Asked", bound=Question)


class Pipe:
    """Standard output for answers only: TVM and its importers print there too, which goes to stderr from now on."""

    def __init__(self) -> None:
        self._fd = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(self, answer: msgspec.Struct) -> None:
        """One line, whole."""
        line = memoryview(msgspec.json.encode(answer) + b"\n")
        while line:
            line = line[os.write(self._fd, line) :]

    def step(self, text: str) -> None:
        """Say what goes on."""
        self.send(Step(text))


def serve(kind: type[Asked], answer: Callable[[Asked, Pipe], None], failing: str) -> None:
    """Answer the one question on stdin; `failing` begins the text of what TVM can't do."""
    die_with(os.getppid())
    pipe = Pipe()
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=kind)
    _limit(question)
    if trouble := versions.problem():
        pipe.send(Refusal(trouble))
        return
    try:
        answer(question, pipe)
    except Exception as error:  # noqa: BLE001  a page must show something better than a traceback
        pipe.send(_refusal(error, question.memory_mb, failing))


def _limit(question: Question) -> None:
    """Of this process from now on. No core is dumped when it is ended for it, and what is being measured goes first."""
    space = question.memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CPU, (question.cpu_s, question.cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if question.quietly:
        os.nice(10)


def _refusal(error: Exception, memory_mb: int, failing: str) -> Refusal:
    if isinstance(error, Refused):
        return Refusal(str(error), error.dims)
    traceback.print_exc()
    if isinstance(error, MemoryError) or "bad_alloc" in str(error):  # the latter from TVM's own passes
        return Refusal(f"It needs more than the {memory_mb:,} MiB of memory that it may take here.")
    reason = (str(error).strip().splitlines() or [""])[-1]
    return Refusal(f"{failing}: {type(error).__name__}: {reason[:500]}")
