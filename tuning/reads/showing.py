"""Schedules of records, and the code made of them: a sandboxed process applies each record once, and the result is cached on disk.

Threads of the web process wait for these processes. If the web process ends, nothing is lost: the next request starts again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar, Union

import msgspec
from django.conf import settings

from tuning.engines.wire.compiling import cuda_tools
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.showing import (
    Decision,
    Generated,
    HotLoop,
    Kernel,
    Kernels,
    Listing,
    Occupancy,
    Question,
    Shown,
)
from tuning.engines.wire.versions import installed
from tuning.host import admission, sandbox
from tuning.wording import internal_error

__all__ = (
    "Applying",
    "Decision",
    "Failed",
    "Generated",
    "HotLoop",
    "Kernel",
    "Kernels",
    "Listing",
    "Occupancy",
    "Recorded",
    "Shown",
    "generate",
    "show",
)
logger = logging.getLogger(__name__)

AT_ONCE = 2
"""Most processes at a time."""
WAITING = "Waiting for its turn"
KEPT_BYTES = 64 << 20
"""Size of the cache; the least recently used files are removed first."""
UNREPORTED = 100
"""Failures that are kept until somebody asks."""
FORMAT = 2
"""Version of the cached files."""

A = TypeVar("A", bound=msgspec.Struct)


@dataclass(frozen=True)
class _Program(Generic[A]):
    """What applies records, and the kind of its answers."""

    module: str
    answer: type[A]


SHOWING = _Program("tuning.engines.oneshot.showing", Shown)
GENERATING = _Program("tuning.engines.oneshot.generating", Generated)


class Recorded(Protocol):
    """Whatever has a record."""

    @property
    def text(self) -> str:
        """As in `TrialMeasured.record`."""


@dataclass(frozen=True)
class Applying:
    """A process is applying the record, or will soon."""

    step: str


@dataclass(frozen=True)
class Failed:
    """The record couldn't be applied; `error` says why."""

    error: str


State = Union[Shown, Applying, Failed]
CodeState = Union[Generated, Applying, Failed]

_lock = threading.Lock()
_turns = threading.BoundedSemaphore(AT_ONCE)
_steps: dict[str, str] = {}
"""The current step of each record that is being applied."""
_failures: dict[str, str] = {}


def show(records: Sequence[Recorded]) -> State:
    """The schedule of the first record. The others are applied along with it, since users often look at them next.

    Returns at once. A failure is reported once; the next call tries again. Raises `Busy` if too many are being applied already.
    """
    return _state(SHOWING, records)


def generate(record: Recorded) -> CodeState:
    """What compilers make of the record's schedule; otherwise as `show`."""
    return _state(GENERATING, [record])


def _state(program: _Program[A], records: Sequence[Recorded]) -> A | Applying | Failed:
    wanted = {_key(program, record.text): record.text for record in records}
    first = next(iter(wanted))
    with _lock:
        if (failure := _failures.pop(first, None)) is not None:
            return Failed(failure)
        if (step := _steps.get(first)) is not None:
            return Applying(step)
        if (kept := _kept(first, program.answer)) is not None:
            return kept
        missing = {key: text for key, text in wanted.items() if key == first or not _is_known(key)}
        turn = admission.inspections.ticket(admission.asking.get())
        threading.Thread(target=_make, args=(program, missing, turn), name="showing", daemon=True).start()
        _steps.update(dict.fromkeys(missing, WAITING))
    return Applying(WAITING)


def shown_dir() -> Path:
    return Path(settings.VAR) / "shown"


def _make(program: _Program[A], texts: Mapping[str, str], turn: admission.Ticket) -> None:
    missing = list(texts)

    def hear(step: str) -> bool:
        with _lock:
            _steps.update(dict.fromkeys(missing, step))
        return True

    try:
        question = Question(records=list(texts.values()), **sandbox.limits())
        turn.enter(None)
        with _turns, closing(sandbox.ask(program.module, question, program.answer, hear)) as answers:
            for key, shown in zip(
                texts, answers, strict=False
            ):  # The process may still be running after its last answer.
                _keep(key, shown)
                missing.remove(key)
                _forget(key)
    except (Refused, OSError) as error:
        _fail(missing[0], str(error))
    except Exception as error:
        logger.exception("A record could not be shown.")
        _fail(missing[0], internal_error(error))
    finally:
        turn.close()
        _forget(*missing)


def _fail(key: str, error: str) -> None:
    with _lock:
        _failures[key] = error
        if len(_failures) > UNREPORTED:
            del _failures[next(iter(_failures))]


def _forget(*keys: str) -> None:
    with _lock:
        for key in keys:
            _steps.pop(key, None)


def _key(program: _Program[A], text: str) -> str:
    """A digest of everything that the result depends on."""
    tools = cuda_tools() if program is GENERATING else []
    depends = f"{FORMAT} {program.module} {installed('apache-tvm')} {tools}"
    return hashlib.sha256(f"{depends}\n{text}".encode()).hexdigest()


def _path(key: str) -> Path:
    return shown_dir() / f"{key}.json"


def _is_known(key: str) -> bool:
    return key in _steps or _path(key).exists()


def _kept(key: str, kind: type[A]) -> A | None:
    try:
        shown = msgspec.json.decode(_path(key).read_bytes(), type=kind)
        os.utime(_path(key))
    except (FileNotFoundError, msgspec.MsgspecError):  # Broken files are left by power cuts.
        return None
    return shown


def _keep(key: str, shown: msgspec.Struct) -> None:
    """Write the file atomically."""
    shown_dir().mkdir(exist_ok=True)
    incoming = _path(key).with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        incoming.write_bytes(msgspec.json.encode(shown))
        incoming.replace(_path(key))
    finally:
        incoming.unlink(missing_ok=True)
    _tidy()


def _tidy() -> None:
    """Remove the least recently used files beyond `KEPT_BYTES`."""
    total = 0
    for _, size, path in sorted(_files(), reverse=True):
        total += size
        if total > KEPT_BYTES:
            path.unlink(missing_ok=True)


def _files() -> Iterator[tuple[float, int, Path]]:
    """Time of last use, size and path of each file."""
    for path in shown_dir().iterdir():
        with suppress(FileNotFoundError):  # Another thread has removed or renamed it.
            stat = path.stat()
            yield stat.st_mtime, stat.st_size, path
