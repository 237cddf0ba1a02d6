"""A deleted run is neither shown nor used; an archived one still counts."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.world import TARGET, first_project, make_compilation, make_run, make_user, measured_run, task_infos
from tuning.actions import curation
from tuning.models import Compilation, Network, Run, Task
from tuning.reads import library, run_list
from tuning.reads.comparing import runs_of, usable
from tuning.reads.library import is_known, known_records, tvm
from tuning.validation import Invalid

pytestmark = pytest.mark.django_db
FIRST = task_infos(1)[0].workload_hash


def ended() -> Run:
    run = measured_run(versions={"apache-tvm": str(tvm())})
    run.move("running", to="finished")
    return run


def networks_with_runs() -> Any:
    return Network.objects.with_runs(None)


@pytest.fixture
def deleted() -> Run:
    run = ended()
    curation.delete(run)
    return run


def test_its_records_are_not_used(deleted: Run) -> None:
    assert known_records([FIRST], TARGET, first_project()) == {}
    assert not is_known(deleted)


def test_the_library_leaves_it_out(deleted: Run) -> None:
    wanted = library.LibraryFilter(None)
    assert (wanted.count(), wanted.entries(0, 10)) == (0, [])
    assert (library.networks(None), library.targets(None), library.workload(None, FIRST)) == ([], [], None)
    assert (
        library.LibraryFilter(None, network="mlp").count()
        == library.LibraryFilter(None, target=deleted.target_fingerprint).count()
        == 0
    )
    assert (run_list.targets(None), run_list.networks(None)) == ([], [])


def test_it_cannot_be_compared(deleted: Run) -> None:
    other = make_run()
    with pytest.raises(Invalid, match=f"There is no run {deleted.pk}. It may have been deleted"):
        runs_of(None, f"{other.pk},{deleted.pk}")
    assert usable(None, f"{other.pk},{deleted.pk}") == [other.pk]


def test_its_pages_and_files_are_gone(client: Client) -> None:
    run = ended()
    compilation = make_compilation(run)
    paths = [f"/runs/{run.pk}/", f"/runs/{run.pk}/tasks/0/", f"/runs/{run.pk}/trials/", f"/runs/{run.pk}/figures/"]
    paths += [f"/compilations/{compilation.pk}/", f"/runs/{run.pk}/console/"]
    calls = [f"runs/{run.pk}{tail}" for tail in ("", "/trials", "/curves", "/tasks/0", "/errors", "/compilations")]
    calls += [f"compilations/{compilation.pk}", f"compilations/{compilation.pk}/manifest", f"runs/{run.pk}/trials.csv"]
    client.force_login(make_user("admin"))
    assert {client.get(path).status_code for path in paths} == {200}
    curation.delete(run)
    assert {client.get(path).status_code for path in [*paths, *(f"/api/v1/{call}" for call in calls)]} == {404}


def test_its_queued_compilation_is_left_alone(deleted: Run) -> None:
    compilation = make_compilation(deleted, status="queued", stage="prove", verified=None)
    assert not Compilation.objects.forgotten().exists()
    assert not Compilation.objects.waiting_for(deleted.device).exists()
    curation.restore(deleted)
    assert list(Compilation.objects.forgotten()) == list(Compilation.objects.waiting_for("cpu")) == [compilation]


def test_networks_do_not_count_it(deleted: Run) -> None:
    assert [network.run_count for network in networks_with_runs()] == [0]
    assert not deleted.tuned_network.runs.exists()


def test_restoring_it_brings_everything_back(deleted: Run) -> None:
    curation.restore(deleted)
    assert known_records([FIRST], TARGET, first_project()).keys() == {FIRST}
    assert library.LibraryFilter(None).count() == 2
    assert [network.run_count for network in networks_with_runs()] == [1]


def test_an_archived_run_counts_for_everything(client: Client) -> None:
    run = ended()
    curation.archive(run)
    assert known_records([FIRST], TARGET, first_project())[FIRST][0].run == run.pk
    assert library.LibraryFilter(None).count() == 2
    assert Task.objects.kept().best_known(tvm()).count() == 2
    assert runs_of(None, f"{run.pk},{make_run().pk}")[0] == run
    client.force_login(make_user("viewer"))
    page: Any = client.get(f"/runs/{run.pk}/")
    assert "archived" in page.content.decode()
