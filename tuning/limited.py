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
from typing import IO, TypeVar, Union

import msgspec
from django.conf import settings

from .engines.errors import Refused
from .engines.limited import Question, Refusal, Step
from .engines.signals import signal_name

PULSE_S = 1.0
"""`on_step` is called at least this often."""
READ_BYTES = 1 << 20

Answer = TypeVar("Answer", bound=msgspec.Struct)


class Abandoned(Exception):
    """Who asked wants no answer any more."""


def limits() -> dict[str, int]:
    """What a `Question` says of them."""
    return {"memory_mb": settings.INSPECT_MEMORY_MB, "cpu_s": settings.INSPECT_S}


def ask(
    module: str, question: Question, kind: type[Answer], on_step: Callable[[str], bool] = lambda _step: True
) -> Generator[Answer, None, None]:
    """The answers, of that kind, of `python -m MODULE`.

    `on_step` hears what goes on, and stops it by False. Raises `Refused` with the reason in words, and `Abandoned`.
    The process ends when the iterator is closed.
    """
    with tempfile.TemporaryFile() as printed, _started(module, printed) as process:
        try:
            yield from _answers(process, question, _decoder(kind), on_step, printed)
        finally:
            process.kill()


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
    printed: IO[bytes],
) -> Generator[Answer, None, None]:
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):  # Its end says more.
        process.stdin.write(msgspec.json.encode(question))
        process.stdin.close()
    doing, answered = "Starting", False
    for line in _lines(process):
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
        raise Refused(_death(status, doing, printed))


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What it writes, line by line, and an empty one at each pulse. Raises `Refused` when the time is up."""
    assert process.stdout
    deadline, rest = time.monotonic() + settings.INSPECT_S, b""
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
    raise Refused(f"It took longer than the {settings.INSPECT_S} s that it may take here (TUNEBOARD_INSPECT_S).")


def _death(status: int, doing: str, printed: IO[bytes]) -> str:
    """Why there was no answer, by the exit status and what was printed last."""
    printed.seek(0)
    lines = printed.read().decode(errors="replace").strip().splitlines()
    if any("bad_alloc" in line or "out of memory" in line or "MemoryError" in line for line in lines[-20:]):
        return f"{doing} needed more than the {settings.INSPECT_MEMORY_MB:,} MiB of memory that it may take here."
    if status in (-24, 128 + 24):  # SIGXCPU
        return f"{doing} took more than {settings.INSPECT_S} s of processor time (TUNEBOARD_INSPECT_S)."
    how = f"was ended by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
    last = f" Its last line: {lines[-1][:300]}" if lines else ""
    return f"TVM broke down over it while it was at “{doing}”: its process {how}.{last}"
