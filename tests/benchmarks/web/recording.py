"""`python -m tests.benchmarks.web.recording TRIALS BATCH PAUSE [spread]`: the live path of a made-up run, in the database of the environment.

Records batch by batch and announces each, as a supervisor does; PAUSE is seconds from one batch's beginning to the next's. Prints the run's id, waits for a
line, and prints what it measured. `at_s` of each trial is when it was handed to the recorder, in seconds since 1970, as browsers tell it too; with `spread`, when
it would have been measured: a batch's trials one after the other since the batch before.
"""

from __future__ import annotations

import json
import select
import sys
import time
from itertools import islice

import django
import msgspec

from tuning.engines.wire.protocol import TrialMeasured

TASKS = 24


def main(trials: int, batch: int, pause_s: float, *, spread: bool) -> None:
    """Prints `seconds` that recording and announcing took without pauses, and the trials a second that this makes."""
    from tuning.notify.announce import announce
    from tuning.work.synthetic import unfinished

    with unfinished(trials, TASKS, name="Synthetic: live") as (recorder, events):
        _say(recorder.run.pk)
        while not select.select([sys.stdin], [], [], 1.0)[0]:  # Hundreds of watchers take a while to join.
            recorder.run.renew(elapsed_s=0.0)
        sys.stdin.readline()
        busy_s = 0.0
        while measured := list(islice(events, batch)):
            began = time.monotonic()
            stamped = _stamped(measured, time.time(), pause_s / len(measured) if spread else 0.0)
            announce(recorder.run.pk, recorder.record(stamped))
            taken_s = time.monotonic() - began
            busy_s += taken_s
            time.sleep(max(0.0, pause_s - taken_s))
        _say({"seconds": busy_s, "trials_a_second": trials / busy_s})
        sys.stdin.readline()  # Whoever watches may still be reading.


def _stamped(measured: list[TrialMeasured], now: float, apart_s: float) -> list[TrialMeasured]:
    """The last one as of now, those before it so many seconds apart."""
    earliest = now - apart_s * (len(measured) - 1)
    return [msgspec.structs.replace(one, at_s=earliest + apart_s * place) for place, one in enumerate(measured)]


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), spread="spread" in sys.argv[4:])
