"""A library that stock TVM opens, and a stock database that becomes a library."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.tuning.engines.running import Engine, options, start
from tests.world import claimed, make_run
from tuning.actions import projects
from tuning.actions.incoming import imports
from tuning.engines.wire.protocol import NetworkSpec, TasksExtracted
from tuning.models import Import, Network, Project, Run
from tuning.reads.library import tvm
from tuning.work import importing
from tuning.work.best_records import best_records
from tuning.work.recorder import Recorder
from tuning.work.warm_start import warm_start

pytestmark = [pytest.mark.django_db, pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
MLP = NetworkSpec("mlp", {"batch": 1, "dtype": "float32"})
VERSIONS = {"apache-tvm": tvm()}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The events of a short tuning of an MLP."""
    folder = tmp_path_factory.mktemp("mlp")
    few = options(trials_per_batch=2, min_repeat_ms=0)
    with Engine(start(folder / "work", network=MLP, trials_budget=4, options=few), folder / "log") as engine:
        engine.to_the_end()
        return list(engine.seen)


@pytest.fixture
def tuned(seen: list[Any]) -> Run:
    """The run that it was."""
    run = claimed(make_run(versions=VERSIONS, trials_budget=4))
    Recorder(run).record([one for one in seen if isinstance(one, TasksExtracted) or hasattr(one, "latency_s")])
    run.refresh_from_db()
    run.move("running", to="finished")
    assert run.tasks_measured == 2
    return run


def imported(folder: Path, project: Project, **about: Any) -> Run:
    source, files = imports.start_here([folder], {"project": project.name, **about})
    assert source.claim()
    importing.carry_out(source, files, threading.Event())
    assert (Import.objects.get().status, Import.objects.get().bad_lines) == ("finished", 0)
    return source.runs.get()


def test_stock_tvm_opens_an_export_and_applies_it(tuned: Run, tmp_path: Path) -> None:
    from tvm import relax
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction

    call_command("export_library", str(tmp_path / "library"), "--target", str(tuned.target["mcpu"]))
    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "library"), allow_missing=False)
    assert len(database) == 2
    target = Target(tuned.target)
    legalized = extraction.legalized(networks.build(MLP).mod, target)
    with target, database:
        applied = relax.transform.MetaScheduleApplyDatabase()(legalized)
    functions = [one for one in applied.functions.values() if not isinstance(one, relax.Function)]
    assert [bool(one.attrs.get("tirx.is_scheduled")) for one in functions] == [True, True]
    recorded = sorted(float(one.run_secs[0]) for one in database.get_all_tuning_records())
    assert recorded == pytest.approx(sorted(one.latency_s for one in best_records(tuned, "library")[0]))


def test_a_stock_database_is_compiled_with_and_warm_started_from(tuned: Run, seen: list[Any], tmp_path: Path) -> None:
    call_command("export_library", str(tmp_path / "library"))
    other = projects.create("other")
    known = imported(tmp_path / "library", other, network="mlp")
    assert (known.network, known.origin, known.target) == (tuned.network, "imported", tuned.target)
    ours = {task.workload_hash: (task.name, task.weight, task.flop) for task in tuned.tasks.all()}
    assert {task.workload_hash: (task.name, task.weight, task.flop) for task in known.tasks.all()} == ours
    assert known.estimated_latency_s == pytest.approx(tuned.estimated_latency_s)

    options = {**make_run().options, "imported_records": True}
    launched = claimed(make_run(project=other, versions=VERSIONS, target=tuned.target, options=options))
    (extracted,) = [one for one in seen if isinstance(one, TasksExtracted)]
    records = warm_start(launched, extracted.tasks).records
    assert {(one.task, one.run) for one in records} == {(0, known.pk), (1, known.pk)}
    best, estimate_s = best_records(known, "run")
    assert {one.run for one in best} == {known.pk}
    assert estimate_s == pytest.approx(tuned.estimated_latency_s)
    assert best_records(known, "library") == ([], None)
    best, estimate_s = best_records(known, "library", imported=True)
    assert ({one.run for one in best}, estimate_s) == ({known.pk}, None)

    call_command("export_library", str(tmp_path / "again"), "--project", "other", "--imported")
    for file in (tmp_path / "library").iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name


def test_the_network_is_found_among_tasks_of_several(tuned: Run, tmp_path: Path) -> None:
    call_command("export_library", str(tmp_path / "library"))
    tuned.tasks.filter(index=1).delete()
    assert imported(tmp_path / "library", projects.create("other"), network="mlp").network == tuned.network
    assert Network.objects.filter(kind="named").count() == 0
