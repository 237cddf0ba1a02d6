"""Schedules of one workload, adapted to a similar one."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, NamedTuple

from tvm import s_tir
from tvm.s_tir import meta_schedule as ms
from tvm.tirx import IntImm

from tuning.engines import records
from tuning.engines.meta_schedule.spaces.candidates import postprocessed

TILE, CATEGORY, LOCATION = "SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"
"""The kinds of instructions that decide something."""


class _Outline(NamedTuple):
    """A trace without what postprocessors added, and its instructions without their decisions: kinds with attributes and constants."""

    trace: Any
    instructions: list[tuple[str, ...]]

    @property
    def choices(self) -> list[tuple[str, ...]]:
        """What is to be decided, but for where blocks are computed."""
        return [one for one in self.instructions if one[0] in (TILE, CATEGORY)]

    def likeness(self, other: _Outline) -> float:
        """From 0 to 1, how much of it the other one has in the same order."""
        return SequenceMatcher(None, self.instructions, other.instructions, autojunk=False).ratio()


class Space:
    """A task's design space, in which schedules of similar workloads are looked for."""

    def __init__(self, context: Any, sketches: Iterable[Any]) -> None:
        """Both are TVM's: the task's context, and its design space."""
        self._context = context
        self._schedules = list(sketches)

    @cached_property
    def _sketches(self) -> list[_Outline]:
        """Made only if anything is adapted: a task may have dozens, of which each takes a while."""
        return [_outline(schedule.trace) for schedule in self._schedules]

    def adapted_record(self, text: str) -> Any | None:
        """As `adapted`; the record is JSON `[workload, record]`. Raises errors of any kind if it isn't valid."""
        record = records.check(text)
        workload = ms.database.Workload(records.function_of(record))
        return self.adapted(record.on(workload).trace)

    def adapted(self, trace: Any) -> Any | None:
        """TVM's candidate for the task, with the trace's decisions; None if no sketch has the same to decide, or they lead to no valid schedule.

        A trace that decides nothing, such as that of a copy, says nothing about another workload.
        Of such sketches the one that is most like the trace's is taken: a 1 × 1 convolution's has no padding, for example. Tiles get the nearest
        sizes that divide the task's loops, categories the nearest of the task's values.
        """
        known = _outline(trace)
        fitting = [sketch for sketch in self._sketches if known.choices and sketch.choices == known.choices]
        if not fitting:
            return None
        return self._candidate(max(fitting, key=known.likeness).trace, _decisions(known.trace))

    def _candidate(self, sketch: Any, decisions: dict[str, deque[Any]]) -> Any | None:
        schedule = s_tir.Schedule(self._context.mod, debug_mask="none", error_render_level="none")
        if len(decisions[LOCATION]) != len(_decisions(sketch)[LOCATION]):
            decisions[LOCATION].clear()

        def decide(instruction: Any, inputs: Any, attributes: Any, own: Any) -> Any:
            kind = str(instruction.kind.name)
            if not decisions[kind]:
                return own
            decision = decisions[kind].popleft()
            if kind == CATEGORY:
                return nearest(attributes[0], decision)
            if kind != TILE:
                return decision
            return tiles(int(schedule.get(inputs[0]).extent), [int(one) for one in decision], int(attributes[1]))

        try:
            sketch.apply_to_schedule(schedule, remove_postproc=True, decision_provider=decide)
        except s_tir.ScheduleError:  # Other shapes may allow less, as of where a block is computed.
            return None
        return postprocessed(schedule, self._context)


def _outline(trace: Any) -> _Outline:
    simplified = trace.simplified(remove_postproc=True)
    return _Outline(simplified, [_without_decision(one) for one in simplified.insts])


def _without_decision(instruction: Any) -> tuple[str, ...]:
    """Which values a category offers depends on the shapes, so they are left out."""
    kind = str(instruction.kind.name)
    if kind == CATEGORY:
        return (kind,)
    constants = (str(int(one)) for one in instruction.inputs if isinstance(one, (int, IntImm)))
    return (kind, *map(str, instruction.attrs), *constants)


def _decisions(trace: Any) -> dict[str, deque[Any]]:
    """By kind of instruction, the trace's decisions in order; of a category, the value."""
    found: dict[str, deque[Any]] = defaultdict(deque)
    for instruction in trace.insts:
        if (decision := trace.get_decision(instruction)) is not None:
            kind = str(instruction.kind.name)
            found[kind].append(int(instruction.attrs[0][int(decision)]) if kind == CATEGORY else decision)
    return found


def nearest(offered: Sequence[Any], wanted: int) -> int:
    """The position of the value offered that is nearest to the wanted one."""
    distances = [abs(math.log1p(int(one)) - math.log1p(wanted)) for one in offered]
    return distances.index(min(distances))


def tiles(extent: int, wanted: list[int], largest: int) -> list[int]:
    """Factors of a loop's extent, each as near to the wanted one as possible, from the innermost outwards.

    The outermost one takes what is left, and the innermost one is at most `largest`.
    """
    found: list[int] = []
    for one in reversed(wanted[1:]):
        most = extent if found else largest
        found.append(_nearest_factor(extent, one, most))
        extent //= found[-1]
    return [extent, *reversed(found)]


def _nearest_factor(extent: int, wanted: int, most: int) -> int:
    factors = (one for one in range(1, min(extent, most) + 1) if extent % one == 0)
    return min(factors, key=lambda one: abs(math.log(one / wanted)))
