"""`python -m tests.benchmarks.web.recording TRIALS BATCH PAUSE [--spread] [--hold-after N]`: records a synthetic run live.

Records and announces batch by batch, as a supervisor does; PAUSE is the number of seconds between the starts of two
batches. Prints the run's id, waits for a line, and prints what it measured. A trial's `at_s` is when it was passed to
the recorder, in seconds since 1970, which browsers can compare with their clock. With `--spread` the trials of a batch are
spread over the time since the previous batch. With `--hold-after N` it waits for another line after N trials.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import time
from itertools import islice
from typing import TYPE_CHECKING

import django
import msgspec

from tuning.engines.wire.protocol import TrialMeasured

if TYPE_CHECKING:
    from tuning.models import Run

TASKS = 24


def main(trials: int, batch: int, pause_s: float, *, spread: bool, hold_after: int) -> None:
    """Prints the seconds spent recording and announcing, without pauses, and the trials per second."""
    from tuning.notify.announce import announce
    from tuning.work.synthetic import unfinished

    with unfinished(trials, TASKS, name="Synthetic: live") as (recorder, events):
        _say(recorder.run.pk)
        busy_s = 0.0
        for part in (islice(events, hold_after), events) if hold_after else (events,):
            _wait(recorder.run)
            while measured := list(islice(part, batch)):
                began = time.monotonic()
                stamped = _stamped(measured, time.time(), pause_s / len(measured) if spread else 0.0)
                announce(recorder.run.pk, recorder.record(stamped))
                taken_s = time.monotonic() - began
                busy_s += taken_s
                time.sleep(max(0.0, pause_s - taken_s))
        _say({"seconds": busy_s, "trials_a_second": trials / busy_s})
        sys.stdin.readline()  # Watchers may still be reading.


def _wait(run: Run) -> None:
    """Waits for a line, however long that takes: hundreds of watchers take a while to connect."""
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        run.renew(elapsed_s=0.0)
    sys.stdin.readline()


def _stamped(measured: list[TrialMeasured], now: float, apart_s: float) -> list[TrialMeasured]:
    """Stamps the last one with `now` and the others `apart_s` seconds apart."""
    earliest = now - apart_s * (len(measured) - 1)
    return [msgspec.structs.replace(one, at_s=earliest + apart_s * place) for place, one in enumerate(measured)]


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("trials", type=int)
    parser.add_argument("batch", type=int)
    parser.add_argument("pause_s", type=float)
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--hold-after", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    django.setup()
    main(**vars(_options()))
