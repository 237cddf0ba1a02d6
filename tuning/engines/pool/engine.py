"""The measuring process: `python -m tuning.engines.pool --events-fd FD`. See `wire.pools.messages`.

TVM is imported late: the supervisor hears of the process at once, and a fake device needs none.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import queue
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import msgspec

from tuning.engines.events import EventWriter, exit_with_children
from tuning.engines.targets import intrinsics
from tuning.engines.wire import versions
from tuning.engines.wire.errors import RunRefused
from tuning.engines.wire.pools.messages import PoolStart, Ready, decode_control
from tuning.engines.wire.protocol import VERSION, Failed, Hello, Hold

from . import fake
from .device import Device, Inbox

logger = logging.getLogger("tuneboard")


def prepare(kind: str) -> None:
    """Load what measuring needs for targets of this kind, without starting a thread or touching a device."""
    if problem := versions.problem():
        raise SystemExit(problem)
    _load()
    intrinsics.load(kind)


def main(argv: Sequence[str] | None = None) -> None:
    """Run one measuring process until its stdin closes."""
    parser = argparse.ArgumentParser(prog="python -m tuning.engines.pool")
    parser.add_argument("--events-fd", type=int, required=True, help="file descriptor of a pipe to write events to")
    events = EventWriter(parser.parse_args(argv).events_fd)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s [%(levelname)s] %(message)s")
    events.send(Hello(VERSION, "pool", os.getpid(), versions.in_use()))
    try:
        _serve(os.fdopen(0, "rb", closefd=False), events)
    except RunRefused as refused:
        _fail(events, str(refused), refused.field)
    except Exception as error:  # noqa: BLE001  the supervisor must learn of any error
        traceback.print_exc()
        _fail(events, f"{type(error).__name__}: {error}", None)


def _load() -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # As in the engine: nothing here uses BLAS.
    from . import machine  # noqa: F401


def _fail(events: EventWriter, error: str, field: str | None) -> NoReturn:
    logger.error("%s", error)
    with suppress(OSError):  # The console's disk may be full.
        sys.stdout.flush()
        sys.stderr.flush()
    events.exit_with(Failed(error, field))


def _serve(controls: io.BufferedReader, events: EventWriter) -> NoReturn:
    line = controls.readline()
    if not line:
        exit_with_children()
    start = _read_start(line)
    device = _device(start)
    inbox: Inbox = queue.SimpleQueue()
    may_begin = threading.Event()
    may_begin.set()
    threading.Thread(target=_read, args=(controls, inbox, may_begin, events), name="controls", daemon=True).start()
    events.send(Ready(device.wants))
    device.serve(inbox, events.send, may_begin)


def _read_start(line: bytes) -> PoolStart:
    try:
        start = decode_control(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunRefused(f"The first control can't be read: {error}") from error
    if not isinstance(start, PoolStart):
        raise RunRefused("The first control must be a pool's start.")
    return start


def _device(start: PoolStart) -> Device:
    if start.fake:
        return fake.Fake(start.machine, start.fake)
    if problem := versions.problem():
        raise RunRefused(problem)
    _load()
    from . import machine

    return machine.Machine(start)


def _read(controls: io.BufferedReader, inbox: Inbox, may_begin: threading.Event, events: EventWriter) -> NoReturn:
    """Take controls from now on. A candidate that can't be read would never be answered, so the process ends."""
    for line in controls:
        try:
            control = decode_control(line)
            if isinstance(control, PoolStart):
                raise msgspec.ValidationError("a second start")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _fail(events, f"A control can't be read: {error}", None)
        if not isinstance(control, Hold):
            inbox.put(control)
        elif control.held:
            may_begin.clear()
        else:
            may_begin.set()
    exit_with_children()
