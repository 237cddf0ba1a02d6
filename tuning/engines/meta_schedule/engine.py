"""The MetaSchedule engine: `python -m tuning.engines.meta_schedule --events-fd FD`, as `protocol` says.

Nothing heavy is imported at its top, so that the supervisor hears of it at once.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from tuning.engines.targets import intrinsics
from tuning.engines.wire import catalog, versions
from tuning.engines.wire.errors import RunRefused
from tuning.engines.wire.protocol import VERSION, Failed, Finished, Hello, Phase, Start

from .pipes import Inbox, Outbox

logger = logging.getLogger("tuneboard")


def prepare(kind: str) -> None:
    """Load all that runs for targets of a kind need. No thread is started, no device touched."""
    if trouble := versions.problem():
        raise SystemExit(trouble)
    _load()
    intrinsics.load(kind)
    import xgboost  # noqa: F401  TVM does so when it makes the cost model.


def main(argv: Sequence[str] | None = None) -> None:
    """Run one engine process from its first event to its last."""
    parser = argparse.ArgumentParser(prog="python -m tuning.engines.meta_schedule")
    parser.add_argument("--events-fd", type=int, required=True, help="an open pipe that events are written to")
    outbox = Outbox(parser.parse_args(argv).events_fd)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s [%(levelname)s] %(message)s")
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.INFO)  # Of the console; TVM's files have it all.
    outbox.send(Hello(VERSION, "meta_schedule", os.getpid(), versions.in_use()))
    inbox = Inbox(on_stop=lambda: outbox.close_with(Finished("stopped")))
    try:
        if start := _start(inbox):
            _check(start)
            _tune(start, inbox, outbox)
    except RunRefused as impossible:
        _fail(outbox, str(impossible), impossible.field)
    except Exception as error:  # noqa: BLE001  the supervisor must hear of whatever it was
        traceback.print_exc()
        _fail(outbox, f"{type(error).__name__}: {error}", None)


def _load() -> None:
    """Import what every run needs."""
    # NumPy's BLAS starts a thread for each core as it is loaded. Nothing here multiplies by it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from . import session  # noqa: F401


def _fail(outbox: Outbox, error: str, field: str | None) -> NoReturn:
    logger.error("%s", error)
    sys.stdout.flush()
    sys.stderr.flush()
    outbox.close_with(Failed(error, field))


def _start(inbox: Inbox) -> Start | None:
    try:
        return inbox.start()
    except msgspec.MsgspecError as error:
        raise RunRefused(str(error), _field(error)) from error


def _field(error: msgspec.MsgspecError) -> str | None:
    """The option that msgspec names, such as `$.options.number`."""
    path = re.search(r"`\$\.([\w.]+)", str(error))
    return path[1].removeprefix("options.") if path else None


def _check(start: Start) -> None:
    if trouble := versions.problem():
        raise RunRefused(trouble)
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


def _tune(start: Start, inbox: Inbox, outbox: Outbox) -> NoReturn:
    outbox.send(Phase("loading"))
    _load()
    from . import session

    session.run(start, inbox, outbox)
