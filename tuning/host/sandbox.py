"""The parent's side of the sandbox: has a process of its own answer one question, within limits.

Nothing that TVM runs into there reaches this process, nor the site's files and the network (`tuning.engines.confinement`).
The child's side is `tuning.engines.oneshot.serving`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, Union

import msgspec
from django.conf import settings

from tuning.engines.wire.errors import Refused, last_line
from tuning.engines.wire.question import InForce, Probe, Question, Refusal, Step, ipc_namespace
from tuning.engines.wire.signals import signal_name
from tuning.lines import LONGEST, MIB, Lines, TooLong

from . import admission, interpreters, valkey

PULSE_S = 1.0
"""`on_step` is called at least this often."""
GRACE_S = 2.0
"""How long a process may take to end when its answer is no longer waited for."""
READ_BYTES = 1 << 20
NO_LIMIT_MB = 1 << 24
"""CUDA reserves address space by the terabyte, even to tell whether there is a GPU."""
MOST_BYTES = 2 * LONGEST
"""Bytes of all that a process answers to a question."""
MOST_PRINTED = 64 * MIB
"""Bytes that it may print. More isn't read, and it is on the site's disk."""
TAIL_BYTES = 1 << 16
"""How much of what the process printed is searched for the reason of its death."""

Answer = TypeVar("Answer", bound=msgspec.Struct)


class Abandoned(Exception):
    """Whoever asked no longer wants an answer."""


class NoAnswer(Refused):
    """The process gave neither an answer nor a reason; the text says how it ended."""


class Died(NoAnswer):
    """The process ended by itself."""


class Limits(NamedTuple):
    """How long a process may take, in seconds, and how the names of the variables begin that say so, if any do."""

    seconds: int
    variable: str | None = None

    def named(self, what: str) -> str:
        return f" ({self.variable}_{what})" if self.variable else ""


@cache
def in_force() -> InForce:
    """What confines sandboxed processes on this machine."""
    broker = str(valkey.socket_path(settings.VAR)) if valkey.answers(settings.VAR) else None
    question = Probe(data=str(settings.VAR), socket=broker, ipc=ipc_namespace(), **limits())
    return ask_once("tuning.engines.oneshot.probing", question, InForce)


def limits() -> dict[str, Any]:
    """The limits of a `Question`, for what users wait for: models, schedules and targets."""
    return {"memory_mb": settings.INSPECT_MEMORY_MB, "cpu_s": settings.INSPECT_S}


def compile_limits(target: Mapping[str, Any]) -> dict[str, Any]:
    """The limits of a `Question` that builds or measures for a resolved target."""
    memory_mb = NO_LIMIT_MB if target["kind"] == "cuda" else settings.COMPILE_MEMORY_MB
    return {"memory_mb": memory_mb, "cpu_s": settings.COMPILE_S * (os.cpu_count() or 1)}


def ask_once(  # noqa: PLR0913 - as `ask`
    module: str,
    question: Question,
    kind: type[Answer],
    on_step: Callable[[str], bool] = lambda _step: True,
    *,
    limits: Limits | None = None,
    python: Path | None = None,
) -> Answer:
    """As `ask`, for a question with one answer."""
    with contextlib.closing(ask(module, question, kind, on_step, limits=limits, python=python)) as answers:
        return next(answers)


def ask(  # noqa: PLR0913 - what differs between questions
    module: str,
    question: Question,
    kind: type[Answer],
    on_step: Callable[[str], bool] = lambda _step: True,
    *,
    limits: Limits | None = None,
    printed: IO[bytes] | None = None,
    python: Path | None = None,
) -> Generator[Answer, None, None]:
    """Yield the answers, of that kind, of `python -m MODULE`. Its output goes to `printed`, if given.

    Under another interpreter, if `python` names one, another process limits and confines itself and then becomes it.

    `on_step` hears what the process is doing, and stops it by returning False. Raises `Refused` with the reason, `Abandoned`, and
    `Busy` if this request's user, or all users, have too many such processes. The process ends when the iterator is closed.
    """
    limits = limits or Limits(settings.INSPECT_S, "TUNEBOARD_INSPECT")
    with (
        admission.inspections.place(),
        tempfile.TemporaryFile() as unread,
        # Until the kernel has killed all, a process might still be writing.
        tempfile.TemporaryDirectory(prefix="tuneboard-", ignore_cleanup_errors=True) as folder,
    ):
        printed = printed or unread
        with _started(_command(module, question, python), printed, folder) as process:
            try:
                lines = _lines(process, limits, printed)
                yield from _answers(process, question, lines, _decoder(kind), on_step)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Died(f"{question.program} gave an answer that can't be read: {error}.") from error
            except TooLong as error:
                raise Died(f"{question.program} answered with {error}.") from error
            except _Ended as ended:
                raise Died(_death(ended, question, limits, printed)) from None
            finally:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it has started. In a namespace, all of that is gone before it ends itself, and its files with it."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class _Ended(Exception):
    def __init__(self, status: int, step: str) -> None:
        super().__init__(status)
        self.status, self.step = status, step


def _command(module: str, question: Question, python: Path | None) -> list[str]:
    if python is None:
        return [sys.executable, "-m", module]
    limits = [
        f"--memory-mb={question.memory_mb}",
        f"--cpu-s={question.cpu_s}",
        *(["--quietly"] if question.quietly else []),
    ]
    return interpreters.command(python, module, question.reach(), "--once", *limits)


def _started(command: list[str], printed: IO[bytes], folder: str) -> subprocess.Popen[bytes]:
    """Start the child: environment and working directory of every sandboxed process are decided here.

    The folder is empty. It is also for the child's temporary files, and unless the question names another, the child writes nowhere else.
    """
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**interpreters.environment(), "TMPDIR": folder},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=printed,
        start_new_session=True,
    )


def _decoder(kind: type[Answer]) -> msgspec.json.Decoder[Answer | Step | Refusal]:
    return msgspec.json.Decoder(Union[kind, Step, Refusal])


def _answers(
    process: subprocess.Popen[bytes],
    question: Question,
    lines: Iterator[bytes],
    decoder: msgspec.json.Decoder[Answer | Step | Refusal],
    on_step: Callable[[str], bool],
) -> Generator[Answer, None, None]:
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):  # How it ended says more.
        process.stdin.write(msgspec.json.encode(question))
        process.stdin.close()
    step, answered = "Starting", False
    for line in lines:
        answer = decoder.decode(line) if line else Step(step)
        if isinstance(answer, Refusal):
            raise Refused(answer.error, answer.dims)
        if not isinstance(answer, Step):
            answered = True
            yield answer
            continue
        step = answer.text
        if not on_step(step):
            raise Abandoned
    if (status := process.wait()) or not answered:
        raise _Ended(status, step)


def _lines(process: subprocess.Popen[bytes], limits: Limits, printed: IO[bytes]) -> Iterator[bytes]:
    """Yield its output line by line, and an empty line at each pulse. Raises `NoAnswer` when the time is up, and `TooLong`."""
    assert process.stdout
    deadline, lines = time.monotonic() + limits.seconds, Lines(most=MOST_BYTES)
    before = os.fstat(printed.fileno()).st_size
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if os.fstat(printed.fileno()).st_size > before + MOST_PRINTED:
                raise TooLong(MOST_PRINTED)
            if not selector.select(PULSE_S):
                yield b""
                continue
            data = os.read(process.stdout.fileno(), READ_BYTES)
            if not data:
                return
            yield from lines.add(data)
    raise NoAnswer(f"It took longer than the {limits.seconds} s that it may take here{limits.named('S')}.")


def _death(ended: _Ended, question: Question, limits: Limits, printed: IO[bytes]) -> str:
    """Why there was no answer, by the exit status and the last lines of output."""
    output, status, step = _tail(printed), ended.status, ended.step
    if any(sign in output for sign in ("bad_alloc", "out of memory", "MemoryError")):
        memory = f"{question.memory_mb:,} MiB of memory"
        return f"{step} needed more than the {memory} that it may use here{limits.named('MEMORY_MB')}."
    if status in (-24, 128 + 24):  # SIGXCPU
        return f"{step} took more than {question.cpu_s} s of processor time{limits.named('S')}."
    how = f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
    line = last_line(output, 300)
    return f"{question.program} crashed at the step “{step}”: its process {how}.{f' Its last line: {line}' if line else ''}"


def _tail(printed: IO[bytes]) -> str:
    """The last 20 lines."""
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - TAIL_BYTES))
    return "\n".join(printed.read().decode(errors="replace").strip().splitlines()[-20:])
