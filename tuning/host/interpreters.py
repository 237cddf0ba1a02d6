"""The interpreters of the settings, those with an older TVM and the one with PyTorch: each is asked once what it can do, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, TypeVar

import msgspec
from django.conf import settings

from tuning.engines.wire.engines import Engine
from tuning.engines.wire.errors import last_line
from tuning.engines.wire.legacy import Probed, ProbeEvent
from tuning.engines.wire.question import Reach, Step
from tuning.engines.wire.signals import signal_name
from tuning.validation import Invalid

from . import surroundings

SETTING = "TUNEBOARD_LEGACY_PYTHON"
STARTER = "tuning.engines.confinement.starting"
"""Confines a process that then becomes another interpreter."""
LIMIT_S = 60.0
"""For the whole probe, which builds a function for each kind of target."""
RETRY_S = 60.0
"""An interpreter that gave no answer is asked again after this time."""
TAIL_BYTES = 1 << 16


class NoInterpreter(Exception):
    """The interpreter that a run was launched with isn't in the settings anymore."""


Found = TypeVar("Found", bound=msgspec.Struct)


@dataclass(frozen=True)
class Asked(Generic[Found]):
    """What an interpreter answered, or why it didn't; neither while it is being asked."""

    found: Found | None = None
    error: str | None = None

    @property
    def pending(self) -> bool:
        return self.found is None and self.error is None


class Probe(NamedTuple):
    """A program of ours that tells what an interpreter has."""

    module: str
    events: Any
    """What it tells: steps, and at last its answer."""
    answer: type[msgspec.Struct]


OLDER_TVM = Probe("tuning.engines.old_tvm.probe", ProbeEvent, Probed)


class _State(NamedTuple):
    """What tells whether an interpreter or what is installed for it has changed."""

    probe: str
    path: Path
    changed: tuple[tuple[str, int], ...]


class _Known(NamedTuple):
    asked: Asked[Any]
    at: float


_known: dict[_State, _Known] = {}
_locks: dict[tuple[str, Path], threading.Lock] = {}
_asking: set[tuple[str, Path]] = set()
_guard = threading.Lock()


def path_of(name: str) -> Path:
    """The interpreter of a run. Raises `NoInterpreter`."""
    known: dict[str, Path] = settings.LEGACY_PYTHON
    if name not in known:
        named = f"Named are: {', '.join(known)}." if known else "None is named."
        raise NoInterpreter(f"The run needs the interpreter {name!r}, which {SETTING} doesn't name. {named}")
    return known[name]


def ask(name: str) -> Asked[Probed]:
    """What the interpreter of this name in the settings can do. Waits for its answer, unless it is known."""
    return ask_at(settings.LEGACY_PYTHON[name], OLDER_TVM)


def look(name: str) -> Asked[Probed]:
    """As `ask`, without waiting: an interpreter that isn't known yet is asked by a thread meanwhile."""
    return look_at(settings.LEGACY_PYTHON[name], OLDER_TVM)


def ask_at(path: Path, probe: Probe) -> Asked[Any]:
    """What the probe tells of an interpreter. Waits for its answer, unless it is known."""
    with _guard:
        lock = _locks.setdefault((probe.module, path), threading.Lock())
    with lock:
        state = _state(path, probe)
        if (known := _fresh(state)) is None:
            known = _answered(path, probe)
            _known[state] = _Known(known, time.monotonic())
        return known


def look_at(path: Path, probe: Probe) -> Asked[Any]:
    """As `ask_at`, without waiting."""
    if known := _fresh(_state(path, probe)):
        return known
    with _guard:
        if (probe.module, path) not in _asking:
            _asking.add((probe.module, path))
            threading.Thread(target=_ask_apart, args=(path, probe), name=f"probe-{path}", daemon=True).start()
    return Asked()


def _ask_apart(path: Path, probe: Probe) -> None:
    try:
        ask_at(path, probe)
    finally:
        with _guard:
            _asking.discard((probe.module, path))


def _fresh(state: _State) -> Asked[Any] | None:
    known = _known.get(state)
    if known is None or (known.asked.error and time.monotonic() > known.at + RETRY_S):
        return None
    return known.asked


def _state(path: Path, probe: Probe) -> _State:
    """Installing a package changes the folder of packages, not the interpreter."""
    prefix = path.parent.parent
    looked = [path, *sorted(prefix.glob("lib/python*/site-packages"))]
    return _State(probe.module, path, tuple((str(one), one.stat().st_mtime_ns) for one in looked if one.exists()))


def _answered(path: Path, probe: Probe) -> Asked[Any]:
    with (
        tempfile.TemporaryDirectory(prefix="tuneboard-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as told,
        tempfile.TemporaryFile() as printed,
    ):
        try:
            status = _run(path, probe, folder, told, printed)
        except OSError as error:
            return Asked(error=f"{path} can't be started: {error.strerror}.")
        events = _events(told, probe)
        if status == 0 and events and isinstance(events[-1], probe.answer):
            return Asked(events[-1])
        return Asked(error=_trouble(path, status, events, printed))


def _run(path: Path, probe: Probe, folder: str, told: IO[bytes], printed: IO[bytes]) -> int | None:
    """The exit status; None if it had to be ended. Raises `OSError`."""
    process = subprocess.Popen(
        [path, "-m", probe.module],
        cwd=folder,
        env={**environment(), "TMPDIR": folder},
        stdin=subprocess.DEVNULL,
        stdout=told,
        stderr=printed,
        start_new_session=True,
    )
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def environment() -> dict[str, str]:
    """As for TVM's other processes. TOPHUB_LOCATION keeps AutoTVM from downloading schedules."""
    return {**surroundings.environment(), "TOPHUB_LOCATION": "NONE"}


def command(python: Path, module: str, reach: Reach, *options: str) -> list[str]:
    """Runs one of our modules under that interpreter, confined. `options` are those of `confinement.starting`."""
    reads = (f"--read={path}" for path in reach.reads)
    writes = (f"--write={path}" for path in reach.writes)
    network = ["--network"] if reach.network else []
    return [sys.executable, "-m", STARTER, *reads, *writes, *network, *options, "--", str(python), "-m", module]


def _events(told: IO[bytes], probe: Probe) -> list[Any]:
    """What it told, up to a line that it can't have told: the program may be no Python at all."""
    told.seek(0)
    found: list[Any] = []
    with contextlib.suppress(msgspec.MsgspecError):
        found.extend(msgspec.json.decode(line, type=probe.events) for line in told)
    return found


def _trouble(path: Path, status: int | None, events: list[Any], printed: IO[bytes]) -> str:
    steps = [event.text for event in events if isinstance(event, Step)]
    where = f"at the step “{steps[-1]}”" if steps else "before its first step"
    if status is None:
        return f"{path} hangs {where}: it gave no answer within {LIMIT_S:g} s."
    ended = f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - TAIL_BYTES))
    said = last_line(printed.read().decode(errors="replace"), 300)
    what = "" if steps else " It may not be a Python of version 3.6 or later."
    return f"{path} {ended} {where}.{what}{f' Its last line: {said}' if said else ''}"


def chosen(given: object, engine: Engine) -> str:
    """The name of the interpreter for a launch; empty for an engine of Tuneboard's own. Raises `Invalid`."""
    named: dict[str, Path] = settings.LEGACY_PYTHON
    if not engine.legacy:
        if given not in (None, ""):
            raise Invalid({"interpreter": f"{engine.title} runs under Tuneboard's own TVM: leave it out."})
        return ""
    if not named:
        raise Invalid({"engine": f"{engine.title} needs an interpreter with an older TVM: set {SETTING}."})
    if given in (None, "") and len(named) == 1:
        return next(iter(named))
    if given not in named:
        told = f"There is no interpreter {str(given)[:60]!r}. " if given else ""
        raise Invalid({"interpreter": f"{told}Choose one of {', '.join(named)}."})
    return str(given)
