"""`python -m tests.benchmarks.web.recording TRIALS BATCH PAUSE [spread]`: records a synthetic run live.

Records and announces batch by batch, as a supervisor does; PAUSE is the number of seconds between the starts of two
batches. Prints the run's id, waits for a line, and prints what it measured. A trial's `at_s` is when it was passed to
the recorder, in seconds since 1970, which browsers can compare with their clock. With `spread` the trials of a batch are
spread over the time since the previous batch.
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
    """Prints the seconds spent recording and announcing, without pauses, and the trials per second."""
    from tuning.notify.announce import announce
    from tuning.work.synthetic import unfinished

    with unfinished(trials, TASKS, name="Synthetic: live") as (recorder, events):
        _say(recorder.run.pk)
        while not select.select([sys.stdin], [], [], 1.0)[0]:  # Hundreds of watchers take a while to connect.
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
        sys.stdin.readline()  # Watchers may still be reading.


def _stamped(measured: list[TrialMeasured], now: float, apart_s: float) -> list[TrialMeasured]:
    """Stamps the last one with `now` and the others `apart_s` seconds apart."""
    earliest = now - apart_s * (len(measured) - 1)
    return [msgspec.structs.replace(one, at_s=earliest + apart_s * place) for place, one in enumerate(measured)]


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), spread="spread" in sys.argv[4:])
