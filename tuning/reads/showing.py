"""Shows what records do: each is applied once by a limited process, and what came out is kept on disk by its content.

Threads of the web process wait for these processes, since there is nothing to lose: who asks again has it made again.
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
from typing import Union

import msgspec
from django.conf import settings

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.showing import Decision, Question, Shown
from tuning.engines.wire.versions import installed
from tuning.host import sandbox
from tuning.models import Record
from tuning.wording import internal_error

__all__ = ("Applying", "Decision", "Failed", "Shown", "show")
logger = logging.getLogger(__name__)

AT_ONCE = 2
"""Processes that may be at it, whoever asked."""
WAITING = "Waiting for its turn"
KEPT_BYTES = 64 << 20
"""Of files; those that nobody looked at for longest go first."""
UNTOLD = 100
"""Failures that are kept until somebody asks."""
FORM = 1
"""Counts up when files of the same record would have to say something else."""


@dataclass(frozen=True)
class Applying:
    """It is being made."""

    step: str


@dataclass(frozen=True)
class Failed:
    """It couldn't be made, and `error` says why."""

    error: str


State = Union[Shown, Applying, Failed]

_lock = threading.Lock()
_turns = threading.BoundedSemaphore(AT_ONCE)
_steps: dict[str, str] = {}
"""What goes on, of each that is being made."""
_failures: dict[str, str] = {}


def show(records: Sequence[Record]) -> State:
    """What the first of the records does; the others are made along with it, for who looks at one soon looks at another.

    Returns at once. A failure is told once: who asks again has it tried again.
    """
    wanted = {_key(record.text): record.text for record in records}
    first = next(iter(wanted))
    with _lock:
        if (failure := _failures.pop(first, None)) is not None:
            return Failed(failure)
        if (step := _steps.get(first)) is not None:
            return Applying(step)
        if (shown := _kept(first)) is not None:
            return shown
        missing = {key: text for key, text in wanted.items() if key == first or not _is_known(key)}
        threading.Thread(target=_make, args=(missing,), name="showing", daemon=True).start()
        _steps.update(dict.fromkeys(missing, WAITING))
    return Applying(WAITING)


def shown_dir() -> Path:
    """Where what was made is kept."""
    return Path(settings.VAR) / "shown"


def _make(texts: Mapping[str, str]) -> None:
    missing = list(texts)

    def hear(step: str) -> bool:
        with _lock:
            _steps.update(dict.fromkeys(missing, step))
        return True

    try:
        question = Question(records=list(texts.values()), **sandbox.limits())
        with _turns, closing(sandbox.ask("tuning.engines.oneshot.showing", question, Shown, hear)) as answers:
            for key, shown in zip(texts, answers, strict=False):  # It isn't waited for once all is answered.
                _keep(key, shown)
                missing.remove(key)
                _forget(key)
    except (Refused, OSError) as error:
        _fail(missing[0], str(error))
    except Exception as error:
        logger.exception("A record could not be shown.")
        _fail(missing[0], internal_error(error))
    finally:
        _forget(*missing)


def _fail(key: str, error: str) -> None:
    with _lock:
        _failures[key] = error
        if len(_failures) > UNTOLD:
            del _failures[next(iter(_failures))]


def _forget(*keys: str) -> None:
    with _lock:
        for key in keys:
            _steps.pop(key, None)


def _key(text: str) -> str:
    """Of the record, and of what else decides what is made of it."""
    return hashlib.sha256(f"{FORM} {installed('apache-tvm')}\n{text}".encode()).hexdigest()


def _path(key: str) -> Path:
    return shown_dir() / f"{key}.json"


def _is_known(key: str) -> bool:
    return key in _steps or _path(key).exists()


def _kept(key: str) -> Shown | None:
    try:
        shown = msgspec.json.decode(_path(key).read_bytes(), type=Shown)
        os.utime(_path(key))
    except (FileNotFoundError, msgspec.MsgspecError):  # The latter as a power cut leaves it.
        return None
    return shown


def _keep(key: str, shown: Shown) -> None:
    """The whole file or none."""
    shown_dir().mkdir(exist_ok=True)
    incoming = _path(key).with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        incoming.write_bytes(msgspec.json.encode(shown))
        incoming.replace(_path(key))
    finally:
        incoming.unlink(missing_ok=True)
    _tidy()


def _tidy() -> None:
    """Remove what nobody looked at for longest, down to `KEPT_BYTES`."""
    total = 0
    for _, size, path in sorted(_files(), reverse=True):
        total += size
        if total > KEPT_BYTES:
            path.unlink(missing_ok=True)


def _files() -> Iterator[tuple[float, int, Path]]:
    """When each was looked at last, and its bytes."""
    for path in shown_dir().iterdir():
        with suppress(FileNotFoundError):  # Another thread tidies, or has just completed it.
            stat = path.stat()
            yield stat.st_mtime, stat.st_size, path
