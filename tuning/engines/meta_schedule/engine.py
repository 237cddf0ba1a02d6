"""The MetaSchedule engine: `python -m tuning.engines.meta_schedule --events-fd FD`. See `wire.protocol`.

TVM is imported late, so that the supervisor hears from the engine at once.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import msgspec

from tuning.engines.events import EventWriter
from tuning.engines.targets import intrinsics
from tuning.engines.wire import catalog, versions
from tuning.engines.wire.errors import RunRefused
from tuning.engines.wire.protocol import VERSION, Failed, Finished, Hello, Phase, Start

from .controls import ControlReader

logger = logging.getLogger("tuneboard")


def prepare(kind: str) -> None:
    """Load everything that runs need for targets of this kind, without starting a thread or touching a device."""
    if problem := versions.problem():
        raise SystemExit(problem)
    _load()
    intrinsics.load(kind)
    import xgboost  # noqa: F401  TVM would import it when it creates the cost model.


def main(argv: Sequence[str] | None = None) -> None:
    """Run one engine process from its first event to its last."""
    parser = argparse.ArgumentParser(prog="python -m tuning.engines.meta_schedule")
    parser.add_argument("--events-fd", type=int, required=True, help="file descriptor of a pipe to write events to")
    events = EventWriter(parser.parse_args(argv).events_fd)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s [%(levelname)s] %(message)s")
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.INFO)  # On the console; TVM's log files have it all.
    events.send(Hello(VERSION, "meta_schedule", os.getpid(), versions.in_use()))
    controls = ControlReader(on_stop=lambda: events.exit_with(Finished("stopped")))
    controls.on_hold = events.hold
    try:
        if start := _read_start(controls):
            _check(start)
            _tune(start, controls, events)
    except RunRefused as refused:
        _fail(events, str(refused), refused.field)
    except Exception as error:  # noqa: BLE001  the supervisor must learn of any error
        traceback.print_exc()
        _fail(events, f"{type(error).__name__}: {error}", None)


def _load() -> None:
    # NumPy's BLAS starts a thread per core when it is loaded. Nothing here uses BLAS.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from . import session  # noqa: F401


def _fail(events: EventWriter, error: str, field: str | None) -> NoReturn:
    logger.error("%s", error)
    with suppress(OSError):  # The console's disk may be full.
        sys.stdout.flush()
        sys.stderr.flush()
    events.exit_with(Failed(error, field))


def _read_start(controls: ControlReader) -> Start | None:
    try:
        return controls.read_start()
    except msgspec.MsgspecError as error:
        raise RunRefused(str(error), _field(error)) from error


def _field(error: msgspec.MsgspecError) -> str | None:
    """The option that msgspec names, as in `$.options.number`."""
    path = re.search(r"`\$\.([\w.]+)", str(error))
    return path[1].removeprefix("options.") if path else None


def _check(start: Start) -> None:
    if problem := versions.problem():
        raise RunRefused(problem)
    if start.network.file is None:
        _check_builtin(start)
    for field, reason in start.options.contradictions().items():
        raise RunRefused(reason, field)
    if start.trials_budget < 1:
        raise RunRefused("The budget must be at least 1 trial.", "trials")


def _check_builtin(start: Start) -> None:
    if start.network.name not in catalog.BUILTIN:
        raise RunRefused(f"There is no network {start.network.name}.", "network")
    try:
        catalog.options_of(start.network.name, dict(start.network.options))
    except msgspec.ValidationError as error:
        raise RunRefused(str(error), "network_options") from error


def _tune(start: Start, controls: ControlReader, events: EventWriter) -> NoReturn:
    events.send(Phase("loading"))
    _load()
    from . import session

    session.run(start, controls, events)
