"""Latencies that a log or a script claims aren't taken for what this site measured."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.world import TARGET, first_project, make_run, make_user, measured_run, task_infos
from tuning.actions import compilations
from tuning.engines.wire.protocol import KnownRecord
from tuning.models import Compilation, Record, Run
from tuning.queue import jobs
from tuning.reads.downloads import Exported
from tuning.reads.library import LibraryFilter, is_known, known_records, tvm
from tuning.validation import Conflict, Invalid
from tuning.work.best_records import alternatives, best_records
from tuning.work.warm_start import warm_start

pytestmark = pytest.mark.django_db
FIRST, SECOND = (info.workload_hash for info in task_infos(2))
INSTALLED = {"apache-tvm": str(tvm())}
CODE = '["Annotate",["b0","\\"module asm\\""],["pragma_import_llvm"],[]]'


@pytest.fixture(autouse=True)
def not_enqueued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


def ended(**values: Any) -> Run:
    run = measured_run(**({"versions": INSTALLED} | values))
    run.move("running", to="finished")
    return run


def imported(origin: str = Run.Origin.IMPORTED, **values: Any) -> Run:
    run = ended(**({"latencies": [(0, 1e-9), (1, 1e-9)]} | values))
    Run.objects.filter(pk=run.pk).update(origin=origin)
    return run


def spoil(run: Run) -> None:
    """Have the run's records say what an earlier version stored unchecked."""
    for record in Record.objects.filter(task__run=run):
        record.text = record.text.replace('["GetSBlock"', f'{CODE},["GetSBlock"')
        record.save()


def runs_of(known: dict[str, list[Any]]) -> set[int]:
    return {record.run for few in known.values() for record in few}


@pytest.fixture
def user() -> User:
    return make_user("admin")


@pytest.mark.parametrize("origin", [Run.Origin.IMPORTED, Run.Origin.STREAMED, Run.Origin.WATCHED])
def test_the_library_has_them_only_if_they_are_asked_for(origin: str, user: User) -> None:
    claimed, own = imported(origin), ended()
    assert runs_of(known_records([FIRST, SECOND], TARGET, first_project())) == {own.pk}
    assert runs_of(known_records([FIRST, SECOND], TARGET, first_project(), imported=True)) == {claimed.pk}
    assert {entry["best"]["run"] for entry in LibraryFilter(user).entries(0, 10)} == {own.pk}
    asked = LibraryFilter(user, imported=True)
    assert [(entry["best"]["run"], entry["best"]["doubt"]) for entry in asked.entries(0, 10)] == [(own.pk, "none")] * 2
    own.tasks.update(best_latency_s=None)
    assert LibraryFilter(user).entries(0, 10) == []
    assert {(entry["best"]["run"], entry["best"]["doubt"]) for entry in asked.entries(0, 10)} == {
        (claimed.pk, "imported")
    }


def test_an_export_has_them_only_if_they_are_asked_for(user: User) -> None:
    imported()
    with pytest.raises(Conflict, match="nothing to export"):
        Exported.of(LibraryFilter(user), "meta_schedule")
    assert len(Exported.of(LibraryFilter(user, imported=True), "meta_schedule").keys) == 2


def test_a_warm_start_only_measures_them() -> None:
    claimed, own = imported(), ended(latencies=[(0, 2e-3)])
    records = warm_start(make_run(), task_infos(2)).records
    assert {record.run for record in records} == {own.pk}
    asked = make_run(options={**make_run().options, "imported_records": True})
    records = warm_start(asked, task_infos(2)).records
    assert [(record.task, record.run, record.is_measured) for record in records] == [
        (0, own.pk, True),
        (0, claimed.pk, False),
        (1, claimed.pk, False),
    ]
    assert isinstance(records[0], KnownRecord)


def test_a_compilation_leaves_them_out() -> None:
    run, claimed = ended(latencies=[(0, 2e-3)]), imported()
    records, estimate_s = best_records(run, "library")
    assert ([record.run for record in records], estimate_s) == ([run.pk], None)
    records, estimate_s = best_records(run, "library", imported=True)
    assert [(record.run, record.is_measured) for record in records] == [(run.pk, True), (claimed.pk, False)]
    assert estimate_s is None, "a claimed latency is no part of an estimate"
    (others, none) = alternatives(run, "library", records, imported=True)
    assert [(record.run, record.is_measured) for record in others] == [(claimed.pk, False)]
    assert none == []


def test_a_compilation_measures_them_inside_the_network_first() -> None:
    run = ended()
    made = compilations.compile_run(run, {"source": "library", "imported_records": "on"}, None)
    assert (made.stage, made.imported_records) == (Compilation.Stage.CHOOSE, True)
    assert compilations.compile_run(run, {"source": "library"}, None).imported_records is False
    with pytest.raises(Invalid, match="library"):
        compilations.compile_run(run, {"imported_records": "on"}, None)
    with pytest.raises(Invalid, match="one batch"):
        compilations.compile_run(run, {"source": "library", "imported_records": "on", "batches": "all"}, None)


def test_there_is_nothing_to_compile_with_but_what_was_asked_for() -> None:
    run = ended(latencies=[(0, None), (1, None)])
    imported()
    assert not is_known(run)
    assert is_known(run, imported=True)
    with pytest.raises(Conflict, match="that this site measured"):
        compilations.compile_run(run, {"source": "library"}, None)
    made = compilations.compile_run(run, {"source": "library", "imported_records": "on"}, None)
    assert made.imported_records


def test_records_that_cannot_be_used_are_left_out_whenever_they_were_stored(user: User) -> None:
    hostile, own = ended(latencies=[(0, 1e-9), (1, 1e-9)]), ended()
    spoil(hostile)
    assert all("pragma_import_llvm" in str(record.trouble) for record in Record.objects.filter(task__run=hostile))
    assert runs_of(known_records([FIRST, SECOND], TARGET, first_project(), most=2)) == {own.pk}
    assert {record.run for record in best_records(own, "library")[0]} == {own.pk}
    assert best_records(hostile, "run")[0] == []
    assert {record.run for record in warm_start(make_run(), task_infos(2)).records} == {own.pk}
    file = Exported.of(LibraryFilter(user), "meta_schedule").file()
    with zipfile.ZipFile(io.BytesIO(b"".join(file.pieces))) as archive:
        assert all(b"pragma_import_llvm" not in archive.read(name) for name in archive.namelist())


def test_others_take_the_place_of_records_that_cannot_be_used() -> None:
    run = ended(latencies=[(0, 1e-3), (0, 2e-3), (0, 3e-3), (1, 1e-3)])
    worst = Record.objects.filter(task__run=run, trial=1).get()
    worst.text = worst.text.replace('["GetSBlock"', f'{CODE},["GetSBlock"')
    worst.save()
    known = known_records([FIRST, SECOND], TARGET, first_project(), most=2)
    assert [record.trial for record in known[FIRST]] == [2, 3]
    assert [record.trial for record in best_records(run, "run")[0]] == [2, 4]
