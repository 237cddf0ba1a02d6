"""Has a question answered by a process of its own, within limits: nothing that TVM meets there reaches this process."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from typing import IO, Any, NamedTuple, TypeVar, Union

import msgspec
from django.conf import settings

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.question import Question, Refusal, Step
from tuning.engines.wire.signals import signal_name

PULSE_S = 1.0
"""`on_step` is called at least this often."""
READ_BYTES = 1 << 20

Answer = TypeVar("Answer", bound=msgspec.Struct)


class Abandoned(Exception):
    """Who asked wants no answer any more."""


class Died(Refused):
    """The process ended without a word of its own."""


class Limits(NamedTuple):
    """For how long a process may take, in seconds, and how the variables that say so begin."""

    seconds: int
    variable: str


def limits() -> dict[str, Any]:
    """What a `Question` says of them."""
    return {"memory_mb": settings.INSPECT_MEMORY_MB, "cpu_s": settings.INSPECT_S}


def ask(  # noqa: PLR0913 - what differs between questions
    module: str,
    question: Question,
    kind: type[Answer],
    on_step: Callable[[str], bool] = lambda _step: True,
    *,
    limits: Limits | None = None,
    printed: IO[bytes] | None = None,
) -> Generator[Answer, None, None]:
    """The answers, of that kind, of `python -m MODULE`; what it prints goes to `printed`, if that is of interest.

    `on_step` hears what goes on, and stops it by False. Raises `Refused` with the reason in words, and `Abandoned`.
    The process ends when the iterator is closed.
    """
    limits = limits or Limits(settings.INSPECT_S, "TUNEBOARD_INSPECT")
    with tempfile.TemporaryFile() as nowhere:
        printed = printed or nowhere
        with _started(module, printed) as process:
            try:
                yield from _answers(process, question, _decoder(kind), on_step, limits)
            except _Ended as ended:
                raise Died(_death(ended, question, limits, printed)) from None
            finally:
                process.kill()


class _Ended(Exception):
    def __init__(self, status: int, doing: str) -> None:
        super().__init__(status)
        self.status, self.doing = status, doing


def _started(module: str, printed: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", module]
    return subprocess.Popen(
        command, cwd=settings.BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed
    )


def _decoder(kind: type[Answer]) -> msgspec.json.Decoder[Answer | Step | Refusal]:
    return msgspec.json.Decoder(Union[kind, Step, Refusal])


def _answers(
    process: subprocess.Popen[bytes],
    question: Question,
    decoder: msgspec.json.Decoder[Answer | Step | Refusal],
    on_step: Callable[[str], bool],
    limits: Limits,
) -> Generator[Answer, None, None]:
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):  # Its end says more.
        process.stdin.write(msgspec.json.encode(question))
        process.stdin.close()
    doing, answered = "Starting", False
    for line in _lines(process, limits):
        answer = decoder.decode(line) if line else Step(doing)
        if isinstance(answer, Refusal):
            raise Refused(answer.error, answer.dims)
        if not isinstance(answer, Step):
            answered = True
            yield answer
            continue
        doing = answer.text
        if not on_step(doing):
            raise Abandoned
    if (status := process.wait()) or not answered:
        raise _Ended(status, doing)


def _lines(process: subprocess.Popen[bytes], limits: Limits) -> Iterator[bytes]:
    """What it writes, line by line, and an empty one at each pulse. Raises `Refused` when the time is up."""
    assert process.stdout
    deadline, rest = time.monotonic() + limits.seconds, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not selector.select(PULSE_S):
                yield b""
                continue
            data = os.read(process.stdout.fileno(), READ_BYTES)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
    raise Refused(f"It took longer than the {limits.seconds} s that it may take here ({limits.variable}_S).")


def _death(ended: _Ended, question: Question, limits: Limits, printed: IO[bytes]) -> str:
    """Why there was no answer, by the exit status and what was printed last."""
    printed.seek(0)
    lines = printed.read().decode(errors="replace").strip().splitlines()
    status, doing = ended.status, ended.doing
    if any("bad_alloc" in line or "out of memory" in line or "MemoryError" in line for line in lines[-20:]):
        return f"{doing} needed more than the {question.memory_mb:,} MiB of memory that it may take here."
    if status in (-24, 128 + 24):  # SIGXCPU
        return f"{doing} took more than {question.cpu_s} s of processor time ({limits.variable}_S)."
    how = f"was ended by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
    last = f" Its last line: {lines[-1][:300]}" if lines else ""
    return f"TVM broke down over it while it was at “{doing}”: its process {how}.{last}"
