"""An engine that searches nothing: it hands out one real candidate again and again, as many as a pool wants.

`python -m tests.benchmarks.fleet.stand_in --events-fd FD`. TVM_BENCH_CANDIDATE names the file with a `Sample`. Whatever its answer, the
trial is written to the run's record file and reported as a real engine does it, with the sample's record.
"""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from tuning.engines.wire.protocol import (
    VERSION,
    Candidate,
    Control,
    Finished,
    Hello,
    Measured,
    Slots,
    Start,
    Stop,
    TaskInfo,
    TasksExtracted,
    TrialMeasured,
    decode_control,
    encode,
)
from tuning.logs.meta_schedule import RECORDS, WORKLOADS

SAMPLE = "TVM_BENCH_CANDIDATE"


class Sample(msgspec.Struct, frozen=True):
    """What a real engine sent and wrote for its only trial."""

    target: dict[str, Any]
    tasks: list[TaskInfo]
    candidate: Candidate
    workload: str
    record: str


class StandIn:
    """Keeps as many candidates out as a real engine."""

    def __init__(self, start: Start, sample: Sample, events: Any) -> None:
        assert start.pool
        self._pool, self._slots = start.pool, start.pool.slots
        self._left = start.trials_budget - start.trials_done
        self._sample, self._events = sample, events
        self._out: set[str] = set()
        process = secrets.token_hex(8)
        self._ids = (f"{process}-{number}" for number in itertools.count(1))
        folder = Path(start.work_dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / WORKLOADS).write_text(sample.workload)
        self._records = (folder / RECORDS).open("a", buffering=1)
        self._began = time.monotonic()

    def run(self) -> None:
        """Until the budget is used up, or a stop."""
        self._events.write(encode(TasksExtracted(self._sample.target, self._sample.tasks)))
        while self._left:
            self._hand_out()
            line = sys.stdin.buffer.readline()
            if not line or isinstance(control := decode_control(line), Stop):
                self._end("stopped")
                return
            self._take(control)
        self._end("budget")

    def _hand_out(self) -> None:
        while len(self._out) < min(self._left, self._pool.look_ahead * self._slots):
            one = msgspec.structs.replace(self._sample.candidate, id=next(self._ids))
            self._out.add(one.id)
            self._events.write(encode(one))

    def _take(self, control: Control) -> None:
        if isinstance(control, Slots):
            self._slots = control.wanted
        elif isinstance(control, Measured) and control.id in self._out:
            self._out.remove(control.id)
            self._left -= 1
            self._records.write(self._sample.record)
            self._events.write(encode(self._trial(control)))

    def _trial(self, measured: Measured) -> TrialMeasured:
        now = time.monotonic()
        latency_s = sum(measured.run_secs) / len(measured.run_secs) if measured.run_secs else None
        kind, error = measured.error_kind, measured.error
        return TrialMeasured(0, latency_s, now - self._began, kind, error, machine=measured.machine, sent_at=now)

    def _end(self, reason: Any) -> None:
        self._events.write(encode(Finished(reason)))


def main() -> None:
    """Run one engine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events-fd", type=int, required=True)
    events = os.fdopen(parser.parse_args().events_fd, "wb", buffering=0)
    start = decode_control(sys.stdin.buffer.readline())
    assert isinstance(start, Start)
    events.write(encode(Hello(VERSION, "stand-in", os.getpid(), {})))
    sample = msgspec.json.decode(Path(os.environ[SAMPLE]).read_bytes(), type=Sample)
    StandIn(start, sample, events).run()


if __name__ == "__main__":
    main()
