"""The best records put into the network that their tasks came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import tvm
from tvm import IRModule, relax
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

_normalized = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")


@dataclass(frozen=True)
class Applied:
    """A legalized network whose functions are scheduled by records, weights packed as these want them."""

    mod: IRModule
    tuned: list[str]
    """Names of the functions that a record was applied to."""
    untuned: list[str]
    """And of the others, which run as TVM writes them: slow."""
    used: dict[str, int]
    """By the name of a tuned function, which of the records it was."""


def applied(legalized: IRModule, target: Target, records: Iterable[str]) -> Applied:
    """Apply records, as in `TrialMeasured.record`, to the very module that tasks were extracted from.

    TVM says nothing when a record fits no function: look at `untuned`. Raises what TVM does when it can't read a record.
    """
    database, committed = _database(records)
    with target, database:
        mod = relax.transform.MetaScheduleApplyDatabase()(legalized)
    functions = [(str(name.name_hint), function) for name, function in mod.functions.items()]
    tuned = {
        name: bool(function.attrs.get("tirx.is_scheduled", False))
        for name, function in functions
        if not isinstance(function, relax.Function)
    }
    with target:
        mod = _with_packed_weights(mod)
    used = {name: nth for name, nth in _found(legalized, target, database, committed) if tuned[name]}
    return Applied(mod, [name for name in tuned if tuned[name]], [name for name in tuned if not tuned[name]], used)


def _with_packed_weights(mod: IRModule) -> IRModule:
    """Schedules begin with a block that packs the weights: do that now, not at every inference."""
    for step in (
        relax.transform.SplitLayoutRewritePreproc(),
        relax.transform.FoldConstant(),
        relax.transform.DeadCodeElimination(),
    ):
        mod = step(mod)
    return mod


def _found(legalized: IRModule, target: Target, database: Any, committed: list[Any]) -> Iterator[tuple[str, int]]:
    """Functions with the place of the record that the database has for each, as the pass above asks for it."""
    for name, function in legalized.functions.items():
        if isinstance(function, relax.Function):
            continue
        record = database.query_tuning_record(_normalized(function), target, str(name.name_hint))
        for nth, one in enumerate(committed):
            if record is not None and record.same_as(one):
                yield str(name.name_hint), nth


def _database(records: Iterable[str]) -> tuple[Any, list[Any]]:
    """And its records in their order."""
    database, committed = ms.database.MemoryDatabase(), []
    for text in records:
        shared, record = msgspec.json.decode(text)
        workload = database.commit_workload(ms.database.Workload.from_json(shared).mod)
        committed.append(ms.database.TuningRecord.from_json(record, workload))
        database.commit_tuning_record(committed[-1])
    return database, committed
