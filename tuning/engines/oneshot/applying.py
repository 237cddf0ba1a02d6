"""Applies records to the network that their tasks were extracted from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import msgspec
import tvm
from tvm import IRModule, relax
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

_normalized = tvm.get_global_func("tvm.s_tir.meta_schedule.normalize_mod")


@dataclass(frozen=True)
class Applied:
    """A legalized network with its functions scheduled by records, and its weights packed as the schedules expect."""

    mod: IRModule
    tuned: list[str]
    """Functions that a record was applied to."""
    untuned: list[str]
    """The other functions, which TVM leaves unscheduled: slow."""
    used: dict[str, int]
    """By tuned function, the index of its record."""


def applied(legalized: IRModule, target: Target, records: Iterable[str]) -> Applied:
    """Apply records, as in `TrialMeasured.record`, to the very module that the tasks were extracted from.

    TVM doesn't report records that fit no function: look at `untuned`. If a record can't be read, TVM's error is raised.
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


def with_algorithms(mod: IRModule, target: Target, records: Iterable[str]) -> IRModule:
    """The network legalized, its convolutions computed as in the records; if there are several for one, as in the fastest."""
    from tuning.engines.networks import algorithms

    database, _ = _database(records)

    def latency_s(function: Any) -> float:
        record = database.query_tuning_record(_normalized(function), target, "main")
        return math.inf if record is None else fmean(map(float, record.run_secs))

    return algorithms.chosen(mod, target, lambda other, direct: latency_s(other) < latency_s(direct))


def _with_packed_weights(mod: IRModule) -> IRModule:
    """Schedules begin with a block that packs the weights. Run it now, not at every inference."""
    for step in (
        relax.transform.SplitLayoutRewritePreproc(),
        relax.transform.FoldConstant(),
        relax.transform.DeadCodeElimination(),
    ):
        mod = step(mod)
    return mod


def _found(legalized: IRModule, target: Target, database: Any, committed: list[Any]) -> Iterator[tuple[str, int]]:
    """Functions with the index of their record in the database, found in the same way as `MetaScheduleApplyDatabase` does."""
    for name, function in legalized.functions.items():
        if isinstance(function, relax.Function):
            continue
        record = database.query_tuning_record(_normalized(function), target, str(name.name_hint))
        for nth, one in enumerate(committed):
            if record is not None and record.same_as(one):
                yield str(name.name_hint), nth


def _database(records: Iterable[str]) -> tuple[Any, list[Any]]:
    """A database of the records, and these in their order."""
    database, committed = ms.database.MemoryDatabase(), []
    for text in records:
        shared, record = msgspec.json.decode(text)
        workload = database.commit_workload(ms.database.Workload.from_json(shared).mod)
        committed.append(ms.database.TuningRecord.from_json(record, workload))
        database.commit_tuning_record(committed[-1])
    return database, committed
