"""Measures several libraries in turn, so that a disturbance hits all of them."""

import time
from typing import Callable, Dict, List, TypeVar

LAP_S = 0.1
"""How long each side runs in a round, about."""
REST_S = 0.1
"""Pause between two sides: ONNX Runtime's threads busy-wait for 35 ms more, and whatever shares a core with them takes twice as long."""
LEAST_ROUNDS, MOST_ROUNDS = 3, 50
"""An untuned library may take minutes for an inference: it has a single round then."""
SLOW = 8
"""A side that takes so many times as long as the fastest one has the least rounds only, which don't count in the others' time."""
LEAST_OF_FIRST = 5
"""Rounds of the first side, from which on its noise is told. Others may have fewer."""
Measure = Callable[[int], float]
"""Returns the mean seconds of one inference over the given number of inferences."""
Side = TypeVar("Side", bound=str)


def benchmarked(
    sides: Dict[Side, Measure], seconds: float, on_progress: Callable[[float], None]
) -> Dict[Side, List[float]]:
    """Seconds of one inference of each side, in rounds: all sides in turn, in reverse order in every second round.

    There is time for `LEAST_ROUNDS`, unless a single inference of a side takes longer than all rounds should: then that one is its only round.
    After them, the sides that aren't `SLOW` go on, and the first one alone has as many as it needs for its noise.
    """
    once = {side: measure(1) for side, measure in sides.items()}
    counts = {side: max(1, round(LAP_S / max(once[side], 1e-7))) for side in sides}
    first, done = next(iter(sides)), 0.0
    in_turn = [side for side in sides if side == first or once[side] <= seconds]
    rounds: Dict[Side, List[float]] = {side: [] if side in in_turn else [once[side]] for side in sides}
    for nth in range(MOST_ROUNDS):
        if nth == LEAST_ROUNDS:
            in_turn = _quick(rounds)
        spent = sum(sum(rounds[side]) * counts[side] + nth * REST_S for side in in_turn)
        if nth >= LEAST_ROUNDS and spent * (nth + 1) / nth > seconds:
            break
        done = min(1.0, max(done, spent / seconds, nth / MOST_ROUNDS))
        on_progress(done)
        for side in in_turn if nth % 2 == 0 else reversed(in_turn):
            rounds[side].append(_rested(sides[side], counts[side]))
    while len(rounds[first]) < LEAST_OF_FIRST:
        rounds[first].append(_rested(sides[first], counts[first]))
    return rounds


def _quick(rounds: Dict[Side, List[float]]) -> List[Side]:
    """The sides that aren't slow, and the first one."""
    fastest = min(map(min, rounds.values()))
    return [side for nth, side in enumerate(rounds) if nth == 0 or min(rounds[side]) < SLOW * fastest]


def _rested(measure: Measure, number: int) -> float:
    time.sleep(REST_S)
    return measure(number)
