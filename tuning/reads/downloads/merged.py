"""Records of several runs in one file: all of them, the best of each workload, or a package such as TopHub's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Literal

from tuning.models import KEEP_BEST, Record, Run
from tuning.reads.files import File, Pieces, joined
from tuning.validation import Conflict, Invalid
from tuning.wording import numbered

from .chosen import tasks_of
from .records import Entry, Which, archive, has_workloads, kept, log, native, written

MergedFormat = Literal["native", "tophub"]
PACKAGE = "v0.01"
"""TopHub's packages are named after a target and their version: `cuda_v0.10.log`."""


def merged_file(runs: Sequence[Run], form: MergedFormat, which: Which, *, k: int | None = None) -> File:
    """The records of these runs: of all trials, run by run, or the best `k` of each workload and target.

    `tophub` is a zip with a log for each target that has the best record of each of AutoTVM's workloads. Raises `Invalid`, or
    `Conflict` if there are no records.
    """
    engine = _engine(runs)
    if form == "tophub" and (engine != "autotvm" or which == "all" or k not in (None, 1)):
        raise Invalid({"format": "tophub is for the best record of each of AutoTVM's workloads."})
    if which == "all" and k is not None:
        raise Invalid({"k": "Only for the best records: leave it out with which=all."})
    version = f"{form} {which} {k} {[(run.pk, run.trials_done) for run in runs]}"
    if form == "tophub":
        return File("tophub.zip", "application/zip", version, _package(_distilled(runs, 1)))
    zipped = _have_workloads(runs)
    if which == "all":
        found = chain.from_iterable([written(run, tasks_of(run)) for run in runs])
        return native("all-records", version, found, zipped=zipped)
    name = "best-records" if k is None else f"best-{k}-records"
    return native(name, version, _distilled(runs, k or KEEP_BEST), zipped=zipped)


def _engine(runs: Sequence[Run]) -> str:
    engines = sorted({run.engine for run in runs})
    if len(engines) != 1:
        raise Invalid({"runs": f"Records of {' and '.join(engines)} don't go into one file: no tuner reads both."})
    return engines[0]


def _have_workloads(runs: Sequence[Run]) -> bool:
    """Whether the records refer to workloads. Raises `Conflict` if they do, but a run's log came without them."""
    missing = [run for run in runs if not has_workloads(run)]
    if len(runs) > 1 and (without := [run.pk for run in missing if run.is_meta_schedule]):
        raise Conflict(f"The log of {numbered(without)} came without its workloads, so it can't be merged with others.")
    return not missing


def _distilled(runs: Sequence[Run], k: int) -> list[Entry]:
    """The best records of each workload on each target, whichever run they are of."""
    of = Record.objects.filter(task__run__in=runs).best_first().select_related("task__run")
    ranked = sorted(of, key=_workload)  # Which keeps the best of each first.
    if not ranked:
        raise Conflict("There are no records yet: no trial has been valid so far.")
    return [kept(record.task, record) for _, group in groupby(ranked, key=_workload) for record in list(group)[:k]]


def _workload(record: Record) -> tuple[str, str]:
    return record.task.run.target_fingerprint, record.task.workload_hash


def _package(found: Iterable[Entry]) -> Pieces:
    zipped = archive()
    for name, group in _by_package(found):
        zipped.add(log(group), f"{name}_{PACKAGE}.log")
    return joined(zipped)


def _by_package(found: Iterable[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    named = sorted(((package_name(entry.task.run.target), entry) for entry in found), key=lambda pair: pair[0])
    for name, group in groupby(named, key=lambda pair: pair[0]):
        yield name, [entry for _, entry in group]


def package_name(target: Any) -> str:
    """As TopHub calls a target: by its device, otherwise by its kind."""
    told = target if isinstance(target, dict) else {}
    return str(told.get("device") or told.get("kind") or "target")
