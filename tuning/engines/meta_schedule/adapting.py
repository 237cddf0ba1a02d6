"""Schedules of one workload, adapted to a similar one."""

from __future__ import annotations

import json
import math
from typing import Any

from tvm import s_tir
from tvm.s_tir import meta_schedule as ms


class Space:
    """A task's design space, as far as it tells which schedules of similar workloads belong to it."""

    def __init__(self, context: Any) -> None:
        """`context` is TVM's."""
        self._context = context
        self._sketches = [_instructions(schedule.trace) for schedule in context.generate_design_space()]

    def adapted(self, text: str) -> Any | None:
        """TVM's candidate for the task, made as the record's schedule is; None if its space has none like that, or a postprocessor rejects it.

        The record is JSON `[workload, record]`. Its instructions are repeated, and tiles get the sizes nearest to its own that divide the
        task's loops. The instructions must be those of one of the task's own sketches: TVM's search goes on from the candidate, and fails
        with what its mutations make of others. Raises errors of any kind if the record isn't valid.
        """
        workload, record = json.loads(text)
        trace = ms.database.TuningRecord.from_json(record, ms.database.Workload.from_json(workload)).trace
        if _instructions(trace) not in self._sketches:
            return None
        schedule = s_tir.Schedule(self._context.mod, debug_mask="none", error_render_level="none")

        def decide(instruction: Any, inputs: Any, attributes: Any, decision: Any) -> Any:
            if str(instruction.kind.name) != "SamplePerfectTile":
                return decision
            extent, largest = int(schedule.get(inputs[0]).extent), int(attributes[1])
            return tiles(extent, [int(one) for one in decision], largest)

        trace.apply_to_schedule(schedule, remove_postproc=True, decision_provider=decide)
        schedule.enter_postproc()  # The search repeats what comes before this, and postprocesses that itself.
        if not all(postproc.apply(schedule) for postproc in self._context.space_generator.postprocs):
            return None
        return ms.MeasureCandidate(schedule, ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True))


def _instructions(trace: Any) -> list[tuple[str, list[str]]]:
    """Kinds and attributes, without decisions and what postprocessors added."""
    instructions = trace.simplified(remove_postproc=True).insts
    return [(str(one.kind.name), [str(attribute) for attribute in one.attrs]) for one in instructions]


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
