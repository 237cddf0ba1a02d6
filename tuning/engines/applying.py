"""The best records put into the network that their tasks came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from tvm import IRModule, relax
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target


@dataclass(frozen=True)
class Applied:
    """A legalized network whose functions are scheduled by records, weights packed as these want them."""

    mod: IRModule
    tuned: list[str]
    """Names of the functions that a record was applied to."""
    untuned: list[str]
    """And of the others, which run as TVM writes them: slow."""


def applied(legalized: IRModule, target: Target, records: Iterable[str]) -> Applied:
    """Apply records, as in `TrialMeasured.record`, to the very module that tasks were extracted from.

    TVM says nothing when a record fits no function: look at `untuned`.
    """
    with target, _database(records):
        mod = relax.transform.MetaScheduleApplyDatabase()(legalized)
    functions = [(str(name.name_hint), function) for name, function in mod.functions.items()]
    tuned = {
        name: bool(function.attrs.get("tirx.is_scheduled", False))
        for name, function in functions
        if not isinstance(function, relax.Function)
    }
    with target:
        mod = _with_packed_weights(mod)
    return Applied(mod, [name for name in tuned if tuned[name]], [name for name in tuned if not tuned[name]])


def _with_packed_weights(mod: IRModule) -> IRModule:
    """Schedules begin with a block that packs the weights: do that now, not at every inference."""
    for step in (
        relax.transform.SplitLayoutRewritePreproc(),
        relax.transform.FoldConstant(),
        relax.transform.DeadCodeElimination(),
    ):
        mod = step(mod)
    return mod


def _database(records: Iterable[str]) -> Any:
    database = ms.database.MemoryDatabase()
    for text in records:
        shared, record = msgspec.json.decode(text)
        workload = database.commit_workload(ms.database.Workload.from_json(shared).mod)
        database.commit_tuning_record(ms.database.TuningRecord.from_json(record, workload))
    return database
