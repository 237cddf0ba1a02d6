"""Candidates for measurement that the search didn't make."""

from __future__ import annotations

from typing import Any

from tvm import s_tir
from tvm.s_tir import meta_schedule as ms

from tuning.engines.targets.default_schedules import default_schedule


def default_candidate(context: Any, target: Any) -> Any | None:
    """The default schedule of a GPU's task, for TVM's context of it; None if a record can't hold it. Raises TVM's errors.

    Rules for products of matrices tile whatever adds up, such as a product with a vector. On an H100, the two layers of an MLP took 9 times as long with
    the best of 26 trials as with the default schedules, which a library has for functions without a record.
    """
    found = default_schedule(context.mod["main"], target)
    if found is None or not _fits_record(found.trace, context.mod):
        return None
    schedule = s_tir.Schedule(context.mod, debug_mask="none", error_render_level="none")
    found.trace.apply_to_schedule(schedule, remove_postproc=True)
    return postprocessed(schedule, context)


def postprocessed(schedule: Any, context: Any) -> Any | None:
    """TVM's candidate of a task's schedule; None if a postprocessor rejects it."""
    schedule.enter_postproc()  # The search repeats what comes before this, and postprocesses that itself.
    if not all(postproc.apply(schedule) for postproc in context.space_generator.postprocs):
        return None
    return ms.MeasureCandidate(schedule, ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True))


def _fits_record(trace: Any, mod: Any) -> bool:
    """TVM has no JSON for a block's new layout, which its schedules of products have."""
    try:
        ms.database.TuningRecord(trace, ms.database.Workload(mod)).as_json()
    except TypeError:
        return False
    return True
