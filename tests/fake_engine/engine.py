"""An engine that replays a script: `python -m tests.fake_engine --events-fd FD`, started like a real one.

TVM_FAKE_ENGINE_SCRIPT names a file of JSON lines. A line with `type` is an event, which is sent as it is, except for trials
that an earlier process of the run has sent (`Start.trials_done`). A line with `do` is an action:
{"do": "sleep", "seconds": 1}, {"do": "print", "text": "…"}, {"do": "kill"}, {"do": "exit", "status": 3},
{"do": "raw", "text": "…"} sends the text as an event, {"do": "endless"} a line that doesn't end, {"do": "wait"} for Stop or the end of stdin,
{"do": "extended"}, {"do": "warm_start"} and {"do": "held"} wait for Extend, WarmStart and Hold and print them,
{"do": "record", "text": "…"} writes a line to the run's record file, unless an earlier process has written it,
{"do": "pool"} has the run's pool measure a candidate for each trial of the budget (or "until" a file exists),
{"do": "replace", "name": "…", "how": "…", "canary": "…"} puts something else in the place of a file of the run's folder (`tests.replacing`),
{"do": "ignore"} ignores controls, and {"do": "tell"} describes the process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.replacing import replace
from tuning.engines.wire.protocol import (
    Candidate,
    Control,
    Event,
    Extend,
    Finished,
    Hold,
    Measured,
    Slots,
    Start,
    Stop,
    TrialMeasured,
    WarmStart,
    decode_control,
    decode_event,
    encode,
)
from tuning.logs.meta_schedule import RECORDS


def prepare(kind: str) -> None:
    """Load something that has state."""
    import numpy as np  # noqa: F401


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events-fd", type=int, required=True)
    events = os.fdopen(parser.parse_args(argv).events_fd, "wb", buffering=0)
    start = decode_control(sys.stdin.buffer.readline())
    assert isinstance(start, Start)
    skip, records = start.trials_done, Path(start.work_dir, RECORDS)
    written = len(records.read_bytes().splitlines()) if records.exists() else 0
    for line in Path(os.environ["TVM_FAKE_ENGINE_SCRIPT"]).read_text().splitlines():
        step = json.loads(line)
        if step.get("do") == "pool":
            measure_by_pool(start, events, enough=Path(step["until"]) if "until" in step else None)
        elif step.get("type") == "trial" and skip:
            skip -= 1
        elif step.get("do") == "record":
            if not written:
                append(records, step["text"])
            written = max(0, written - 1)
        elif step.get("do") == "replace":
            replace(Path(start.work_dir, step["name"]), step["how"], Path(step["canary"]))
        elif "type" in step:
            events.write(encode(decode_event(line.encode())))
        else:
            act(step, events)


def append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(f"{line}\n")


def act(step: dict[str, Any], events: Any) -> None:
    actions: dict[str, Callable[[], Any]] = {
        "sleep": lambda: time.sleep(step["seconds"]),
        "print": lambda: os.write(1, step["text"].encode() + b"\n"),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "exit": lambda: sys.exit(step["status"]),
        "endless": lambda: [events.write(b"x" * (1 << 20)) for _ in range(300)],
        "raw": lambda: events.write(step["text"].encode() + b"\n"),
        "wait": lambda: wait(events),
        "extended": lambda: os.write(1, repr(control_of(Extend)).encode() + b"\n"),
        "warm_start": lambda: os.write(1, repr(control_of(WarmStart)).encode() + b"\n"),
        "held": lambda: os.write(1, repr(control_of(Hold)).encode() + b"\n"),
        "ignore": lambda: time.sleep(600),
        "tell": tell,
    }
    actions[step["do"]]()


def measure_by_pool(start: Start, events: Any, enough: Path | None = None) -> None:
    """As a real engine does, but candidates are numbers. It prints the answers that it didn't wait for, and in the end their number.

    Once the file `enough` exists, it hands out nothing more, whatever is left of the budget.
    """
    assert start.pool
    left, slots = start.trials_budget - start.trials_done, start.pool.slots
    made, out = 0, set[str]()
    while left:
        if enough and enough.exists():
            left = len(out)
        while len(out) < min(left, 1.5 * slots):
            made += 1
            out.add(f"{os.getpid()}-{made}")
            module = made.to_bytes(4, "big")
            events.write(encode(Candidate(f"{os.getpid()}-{made}", 0, module, [("TENSOR", "float32", [1])])))
        control = decode_control(sys.stdin.buffer.readline())
        if isinstance(control, Slots):
            slots = control.wanted
        elif isinstance(control, Measured) and control.id in out:
            out.remove(control.id)
            left -= 1
            assert control.synthetic == start.pool.synthetic
            events.write(encode(_trial(control)))
        elif isinstance(control, Stop):
            events.write(encode(Finished("stopped")))
            sys.exit(0)
        else:
            os.write(1, f"not waited for: {control}\n".encode())
    os.write(1, f"measured: {made}\n".encode())


def _trial(measured: Measured) -> TrialMeasured:
    failed = measured.error_kind is not None
    latency_s = None if failed else sum(measured.run_secs) / len(measured.run_secs)
    return TrialMeasured(
        0,
        latency_s,
        time.monotonic(),
        measured.error_kind,
        measured.error,
        machine=measured.machine,
        sent_at=time.monotonic(),
    )


def wait(events: Any) -> None:
    if control_of(Stop):
        events.write(encode(Finished("stopped")))
    sys.exit(0)


def control_of(kind: type[Control]) -> Control | None:
    """Wait for the next control of this kind; None if stdin ends first."""
    for line in sys.stdin.buffer:
        if isinstance(control := decode_control(line), kind):
            return control
    return None


def tell() -> None:
    """Print what a run can see of its process, and change what the next run must not see."""
    numpy = sys.modules.get("numpy")
    state = {
        "session": os.getsid(0) == os.getpid(),
        "fds": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir()),
        "handlers": [str(signal.getsignal(number)) for number in (signal.SIGCHLD, signal.SIGTERM)],
        "threads": threading.active_count(),
        "seen": os.environ.get("LEFT_BY_A_RUN"),
        "random": random.random(),
        "numpy": numpy.random.random() if numpy else None,
    }
    os.environ["LEFT_BY_A_RUN"] = "yes"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, json.dumps(state).encode() + b"\n")


def script(*steps: Event | dict[str, Any]) -> str:
    return "".join(json.dumps(step) + "\n" if isinstance(step, dict) else encode(step).decode() for step in steps)
