"""A fake of the program that measures side by side: `python -m tests.fake_measurer`, started like the real one.

The n-th record takes n ms in the first round and 1 % more in each further one. TVM_FAKE_MEASURER has the places of records that can't
be measured, or says how it misbehaves instead of answering: `kill`, `hang` or `refuse`.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import msgspec

from tuning.engines.oneshot import serving
from tuning.engines.wire import question as wire
from tuning.engines.wire.lifeline import die_with
from tuning.engines.wire.side_by_side.messages import LEAST_ROUNDS, Again, Doing, InTurn, MeasureInTurn


def main() -> None:
    die_with(os.getppid())
    pipe = serving.Pipe()
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=MeasureInTurn)
    pipe.step("Measuring")
    pipe.send(Doing("measuring", 0.5))
    how = os.environ.get("TVM_FAKE_MEASURER", "")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "hang":
        time.sleep(600)
    elif how == "refuse":
        pipe.send(wire.Refusal("This machine can't measure for the target."))
    else:
        failing = {int(place) for place in how.split(",") if place}
        pipe.send(
            InTurn([again(place, failing) for place in range(len(asked.records))], {"apache-tvm": "0.27.0.post1"})
        )


def again(place: int, failing: set[int]) -> Again:
    if place in failing:
        return Again([], "The run process was killed by SIGSEGV.")
    return Again([(place + 1) * 1e-3 * (1 + 0.01 * turn) for turn in range(LEAST_ROUNDS)])


if __name__ == "__main__":
    main()
