"""Measures what was built in turn, round by round, so that a disturbance hits all of it. No TVM here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tuning.engines.measuring.outcomes import Failure, Runner, Timing

from .built import Built


def rounds(built: Mapping[int, Built], runner: Runner) -> Iterator[dict[int, Timing | Failure]]:
    """Yield what each round measured, for as long as anything is left: what has failed isn't measured again."""
    left, turn = dict(built), 0
    while left:
        # In alternating order, so that none always follows the same one.
        outcomes = {key: _measured(left[key], runner) for key in sorted(left, reverse=bool(turn % 2))}
        left = {key: one for key, one in left.items() if isinstance(outcomes[key], Timing)}
        turn += 1
        yield outcomes


def _measured(built: Built, runner: Runner) -> Timing | Failure:
    """Measure a copy, since the runner deletes what it measured."""
    copy = replace(built, path=built.path.with_name(f"again-{built.path.name}"))
    shutil.copyfile(built.path, copy.path)
    return runner.run(copy.path, copy.device, copy.args, None, copy.cold_bytes)
