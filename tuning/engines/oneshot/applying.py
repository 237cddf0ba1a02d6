"""Applies records to the network that their tasks were extracted from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import tvm
from tvm import IRModule, relax
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from tuning.engines import networks
from tuning.engines.networks import extraction
from tuning.engines.networks.bfloat16.rewriting import in_bfloat16
from tuning.engines.records import check
from tuning.engines.targets.dot_products import instruction_of
from tuning.engines.targets.resolving import needs
from tuning.engines.wire.compiling import BestRecord, Build, Quantized, Used
from tuning.engines.wire.errors import Refused, in_one_line
from tuning.engines.wire.targets import pairs_of_bfloat16

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


class Prepared(NamedTuple):
    """A network legalized, as it is and as it was tuned."""

    plain: IRModule
    """The untuned library, which is the proof of the tuned one, always computes directly, in floats, and in the network's precision."""
    recorded: IRModule
    quantized: Quantized | None


def prepared(question: Build, target: Target) -> Prepared:
    """The network in question. Raises `Refused`."""
    network = networks.build(question.network)
    plain = extraction.legalized(network.mod, target)
    computed, quantized = _in_integers(network, target, question)
    mod = networks.as_tuned(computed, target, question.rewrites)
    as_computed = plain if mod is network.mod else extraction.legalized(mod, target)
    return Prepared(plain, _as_recorded(mod, as_computed, target, question), quantized)


def _in_integers(network: Any, target: Any, question: Build) -> tuple[Any, Quantized | None]:
    """The network as it was tuned: what is quantized in it is computed in integers, if that was asked and the CPU can."""
    # The model is read again only if anything in it is quantized.
    in_floats = network.quantized and network.quantized.floats
    instruction = instruction_of(target) if question.rewrites.integers and in_floats else None
    built = networks.build(question.network, instruction=instruction) if instruction else None
    if built is None or built.quantized is None or not built.quantized.integers:
        return network, None
    return built, Quantized(built.quantized.integers, list(built.quantized.steps))


def _as_recorded(network: Any, legalized: Any, target: Any, question: Build) -> Any:
    """The network legalized, with the algorithms and in the precision that were tuned."""
    if question.rewrites.precision != "network":
        return _reduced(network, target)
    if not question.rewrites.algorithms:
        return legalized
    try:
        records = [record.text for record in question.records]
        return with_algorithms(network, target, records, in_parts=question.rewrites.in_parts)
    except Exception as error:
        raise _inapplicable(legalized, target, question.records, error) from error


def _reduced(network: Any, target: Any) -> Any:
    """The network legalized, in bfloat16."""
    pairs = pairs_of_bfloat16(needs(target.export()))
    if isinstance(pairs, str):
        raise Refused(pairs)
    return extraction.legalized(in_bfloat16(network, pairs), target)


class Tuned(NamedTuple):
    """A network with its records applied, what they were applied to, and the names of the untuned functions."""

    mod: IRModule
    used: list[Used]
    untuned: list[str]


def tuned(legalized: IRModule, target: Target, records: Sequence[BestRecord]) -> Tuned:
    """Raises `Refused`."""
    found = applied_by(records, legalized, target)
    if not found.used:
        raise Refused(
            f"None of the {len(records)} records fits a function of the network as this TVM builds it: "
            "they belong to other workloads, so nothing would be faster."
        )
    used = [
        Used(name, records[nth].run, records[nth].trial, records[nth].latency_s) for name, nth in found.used.items()
    ]
    return Tuned(found.mod, used, found.untuned)


def applied_by(records: Sequence[BestRecord], legalized: IRModule, target: Target) -> Applied:
    """As `applied`. Raises `Refused`, which names the record at fault."""
    try:
        return applied(legalized, target, [record.text for record in records])
    except Exception as error:
        raise _inapplicable(legalized, target, records, error) from error


def _inapplicable(legalized: Any, target: Any, records: Iterable[BestRecord], error: Exception) -> Refused:
    """An error that names the record at fault."""
    for record in records:
        try:
            applied(legalized, target, [record.text])
        except Exception as fault:  # noqa: BLE001  TVM raises errors of any kind
            return Refused(
                f"The record of trial {record.trial} of run {record.run} no longer applies with this TVM: {in_one_line(fault)}"
            )
    return Refused(f"The records can't be applied with this TVM: {in_one_line(error)}")


def applied(legalized: IRModule, target: Target, records: Iterable[str]) -> Applied:
    """Apply records, as in `TrialMeasured.record`, to the very module that the tasks were extracted from.

    TVM doesn't report records that fit no function: look at `untuned`. If a record can't be read, TVM's error is raised.
    """
    names = [
        str(name.name_hint)
        for name, function in legalized.functions.items()
        if not isinstance(function, relax.Function)
    ]
    database, committed = _database(records, [_normalized(legalized[name]) for name in names])
    with target, database:
        mod = relax.transform.MetaScheduleApplyDatabase()(legalized)
    functions = [(str(name.name_hint), function) for name, function in mod.functions.items()]
    scheduled = {
        name: bool(function.attrs.get("tirx.is_scheduled", False))
        for name, function in functions
        if not isinstance(function, relax.Function)
    }
    with target:
        mod = _with_packed_weights(mod)
    used = {name: nth for name, nth in _found(legalized, target, database, committed) if scheduled[name]}
    untuned = [name for name in scheduled if not scheduled[name]]
    return Applied(mod, [name for name in scheduled if scheduled[name]], untuned, used)


def with_algorithms(mod: IRModule, target: Target, records: Iterable[str], *, in_parts: bool) -> IRModule:
    """The network legalized, its convolutions computed as in the records; if there are several for one, as in the fastest."""
    from tuning.engines.networks import algorithms

    fastest: dict[str, float] = defaultdict(lambda: math.inf)
    for record in map(check, records):
        if record.run_secs:
            fastest[record.workload_hash] = min(fastest[record.workload_hash], fmean(record.run_secs))

    def latency_s(function: Any) -> float:
        return fastest[str(ms.utils.shash2hex(_normalized(function)))]

    def is_faster(other: Any, direct: Any) -> bool:
        return latency_s(other) < latency_s(direct)

    return algorithms.chosen(mod, target, is_faster, in_parts=in_parts)


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
            if record is not None and one is not None and record.same_as(one):
                yield str(name.name_hint), nth


def _database(records: Iterable[str], mods: Iterable[IRModule]) -> tuple[Any, list[Any]]:
    """A database of the records of these functions, and TVM's record of each; None for a record of another function."""
    database = ms.database.MemoryDatabase()
    workloads = {str(ms.utils.shash2hex(mod)): database.commit_workload(mod) for mod in mods}
    committed = []
    for record in map(check, records):
        workload = workloads.get(record.workload_hash)
        committed.append(None if workload is None else record.on(workload))
        if workload is not None:
            database.commit_tuning_record(committed[-1])
    return database, committed
