"""Has a network inspected in a process of its own, within limits: nothing that a file does reaches this process."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import msgspec
from django.conf import settings

from .engines.errors import Refused
from .engines.inspecting import Inspected, Question, Refusal, Step, decode
from .engines.protocol import NetworkSpec
from .engines.signals import signal_name

PULSE_S = 1.0
"""`on_step` is called at least this often."""
READ_BYTES = 1 << 20


class Abandoned(Exception):
    """Who asked wants no answer any more."""


def inspect(
    network: NetworkSpec, target: dict[str, Any] | None = None, on_step: Callable[[str], bool] = lambda _step: True
) -> Inspected:
    """The network's inputs, operators and tasks for a resolved target, or for none.

    `on_step` hears what goes on, and stops it by False. Raises `Refused` with the reason in words, and `Abandoned`.
    """
    question = Question(network, target, settings.INSPECT_MEMORY_MB, settings.INSPECT_S)
    with tempfile.TemporaryFile() as printed, _started(printed) as process:
        try:
            return _answer(process, question, on_step, printed)
        finally:
            process.kill()


def _started(printed: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tuning.engines.inspecting"]
    return subprocess.Popen(
        command, cwd=settings.BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed
    )


def _answer(
    process: subprocess.Popen[bytes], question: Question, on_step: Callable[[str], bool], printed: IO[bytes]
) -> Inspected:
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):  # Its end says more.
        process.stdin.write(msgspec.json.encode(question))
        process.stdin.close()
    doing = "Starting"
    for line in _lines(process):
        answer = decode(line) if line else Step(doing)
        if isinstance(answer, Inspected):
            return answer
        if isinstance(answer, Refusal):
            raise Refused(answer.error, answer.dims)
        doing = answer.text
        if not on_step(doing):
            raise Abandoned
    raise Refused(_death(process.wait(), doing, printed))


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
