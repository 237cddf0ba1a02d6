"""Measures several libraries in turn, so that a disturbance hits all of them."""

import time
from typing import Callable, Dict, List, TypeVar

LAP_S = 0.1
"""How long each side runs in a round, about."""
REST_S = 0.1
"""Pause between two sides: ONNX Runtime's threads busy-wait for 35 ms more, and whatever shares a core with them takes twice as long."""
LEAST_ROUNDS, MOST_ROUNDS = 3, 50
LEAST_OF_FIRST = 5
"""Rounds of the first side, from which on its noise is told. An untuned library may take minutes for each, so others may have fewer."""
Measure = Callable[[int], float]
"""Returns the mean seconds of one inference over the given number of inferences."""
Side = TypeVar("Side", bound=str)


def benchmarked(
    sides: Dict[Side, Measure], seconds: float, on_progress: Callable[[float], None]
) -> Dict[Side, List[float]]:
    """Seconds of one inference of each side, in rounds: all sides in turn, in reverse order in every second round.

    There is time for `LEAST_ROUNDS`, whatever they take; after them, the first side alone has as many as it needs for its noise.
    """
    counts = {side: max(1, round(LAP_S / max(measure(1), 1e-7))) for side, measure in sides.items()}
    rounds: Dict[Side, List[float]] = {side: [] for side in sides}
    began = time.monotonic()
    for nth in range(MOST_ROUNDS):
        spent = time.monotonic() - began
        if nth >= LEAST_ROUNDS and spent * (nth + 1) / nth > seconds:
            break
        on_progress(min(1.0, max(spent / seconds, nth / MOST_ROUNDS)))
        for side in list(sides) if nth % 2 == 0 else reversed(list(sides)):
            rounds[side].append(_rested(sides[side], counts[side]))
    first = next(iter(sides))
    while len(rounds[first]) < LEAST_OF_FIRST:
        rounds[first].append(_rested(sides[first], counts[first]))
    return rounds


def _rested(measure: Measure, number: int) -> float:
    time.sleep(REST_S)
    return measure(number)
