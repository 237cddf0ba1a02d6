"""The best records of a workload on a target over all runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import TARGET, first_project, make_run, measured_run, record_text, task_infos
from tuning.models import Provenance, Run, Task, fingerprint, provenance
from tuning.reads.library import KnownRecord, is_known, known_records, tvm

pytestmark = pytest.mark.django_db
FIRST, SECOND = (info.workload_hash for info in task_infos(2))
INSTALLED, OTHER = {"apache-tvm": str(tvm())}, {"apache-tvm": "0.1.0"}


def ended(**values: Any) -> Run:
    run = measured_run(**({"versions": INSTALLED} | values))
    run.move("running", to="finished")
    return run


def best(shash: str = FIRST) -> KnownRecord:
    return known_records([shash], TARGET, first_project())[shash][0]


def champion() -> tuple[int, int]:
    """The run with the best record of the first workload, and how doubtful that is: 0 is not at all."""
    found = Task.objects.filter(workload_hash=FIRST).best_known(tvm()).annotate(doubt=provenance("run", tvm()))
    return found.values_list("run", "doubt").get(run__target_fingerprint=fingerprint(TARGET))


def test_the_fastest_record_of_all_runs_wins() -> None:
    slow, fast = ended(), ended(latencies=[(0, 9e-3), (0, 0.5e-3), (1, 9e-3)])
    assert (best().run, best().trial, best().task, best().latency_s) == (fast.pk, 2, 0, 0.5e-3)
    assert (best().text, best().tvm) == (record_text(0, 0.5e-3), tvm())
    assert best(SECOND).run == slow.pk
    assert champion() == (fast.pk, 0)


def test_unmeasured_workloads_are_left_out() -> None:
    ended(latencies=[(0, 1e-3), (1, None)])
    assert known_records([FIRST, SECOND, "ff"], TARGET, first_project()).keys() == {FIRST}
    assert Task.objects.best_known(tvm()).count() == 1


def test_another_targets_record_does_not_count() -> None:
    other = ended(target=TARGET | {"mcpu": "znver5"})
    assert known_records([FIRST], make_run(target={"kind": "llvm"}).target, first_project()) == {}
    Run.objects.update(target_fingerprint=make_run().target_fingerprint)
    assert best().run == other.pk


def test_it_returns_as_many_as_requested_except_those_of_one_run() -> None:
    one, two = ended(), ended(latencies=[(0, 3e-3)])
    known = known_records([FIRST], TARGET, first_project(), most=2)
    assert [record.latency_s for record in known[FIRST]] == [1e-3, 2e-3]
    assert [record.run for record in known_records([FIRST], TARGET, first_project(), most=2, but=one)[FIRST]] == [
        two.pk
    ]


def test_records_of_another_tvm_come_last() -> None:
    old = ended(versions=OTHER, latencies=[(0, 1e-6), (1, 1e-6)])
    new = ended(latencies=[(0, 1.0)])
    assert (best().run, best(SECOND).run, best(SECOND).tvm) == (new.pk, old.pk, "0.1.0")
    assert champion() == (new.pk, 0)


def test_records_of_synthetic_runs_are_never_used_and_rank_last() -> None:
    fake = ended(synthetic=True, latencies=[(0, 1e-9)])
    assert known_records([FIRST], TARGET, first_project()) == {}
    assert champion() == (fake.pk, Provenance.SYNTHETIC)
    real = ended(versions=OTHER)
    assert (best().run, champion()) == (real.pk, (real.pk, 1))


def test_it_is_known_whether_there_is_anything_to_compile_with() -> None:
    ended(versions=OTHER)
    ended(synthetic=True)
    nothing = ended(latencies=[(0, None)])
    assert not is_known(nothing)
    ended()
    assert is_known(nothing)


def test_a_target_that_the_engine_resolves_counts_as_resolved() -> None:
    run = ended(target="this")
    assert (run.target, best().run) == (TARGET, run.pk)


def test_it_reads_only_the_texts_that_it_returns(django_assert_num_queries: Any) -> None:
    ended()
    project = first_project()
    with django_assert_num_queries(2):
        known_records([FIRST, SECOND], TARGET, project)
