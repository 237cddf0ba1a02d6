"""The library: pages and API."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from tests.world import TARGET, make_user, measured_run, task_infos
from tuning.models import Network, Run
from tuning.reads.library import tvm

pytestmark = pytest.mark.django_db
FIRST, SECOND = (info.workload_hash for info in task_infos(2))
OTHER_TARGET = {"kind": "cuda", "tag": "nvidia/nvidia-a100"}


def ended(**values: Any) -> Run:
    run = measured_run(**({"versions": {"apache-tvm": tvm()}} | values))
    run.move("running", to="finished")
    return run


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def api(client: Client, **query: Any) -> Any:
    return client.get("/api/v1/library", query).json()


def test_an_empty_library_explains_itself(viewer: Client) -> None:
    page = viewer.get("/library/")
    assertContains(page, "<h1>Best records</h1>")
    assertContains(page, 'data-role="empty"')
    assert api(viewer) == {"items": [], "total": 0, "next": None}


def test_it_shows_the_best_of_all_runs_and_how_it_compares(viewer: Client) -> None:
    fast, _slow = ended(), ended(latencies=[(0, 4e-3), (1, 6e-3), (1, None)])
    first, second = api(viewer)["items"]
    assert (first["workload_hash"], first["networks"], first["target"]) == (FIRST, ["mlp"], TARGET)
    assert (first["runs"], first["trials"], first["slowest_latency_s"]) == (2, 3, 4e-3)
    best = first["best"]
    assert (best["run"], best["task"], best["trial"], best["latency_s"]) == (fast.pk, 0, 3, 1e-3)
    assert (best["gflops"], best["tvm"], best["doubt"]) == (pytest.approx(1.0), tvm(), "none")
    assert second["trials"] == 3
    page = viewer.get("/library/")
    assertContains(page, "2 runs, slowest +300.0\u00a0%")
    assertContains(page, f'href="/runs/{fast.pk}/tasks/0/?record=3#record"')
    assertContains(page, "(1, 784) → (1, 128) float32")


def test_it_filters_by_network_target_and_text(viewer: Client) -> None:
    ended()
    other = ended(network=Network.objects.create(name="convnet", fingerprint="c"), latencies=[(0, 1e-3)])
    other.tasks.filter(index=1).delete()
    other.target = OTHER_TARGET
    other.save()
    networks = {FIRST: ["convnet", "mlp"], SECOND: ["mlp"]}
    assert {one["workload_hash"]: one["networks"] for one in api(viewer)["items"]} == networks
    assert api(viewer)["total"] == 3
    assert [one["workload_hash"] for one in api(viewer, network="convnet")["items"]] == [FIRST, FIRST]
    assert [one["best"]["run"] for one in api(viewer, target=other.target_fingerprint)["items"]] == [other.pk]
    assert {one["workload_hash"] for one in api(viewer, q="MATMUL1")["items"]} == {SECOND}
    assert api(viewer, q=f"{SECOND} mlp")["total"] == 1
    assert api(viewer, q="nothing of that name")["total"] == 0
    assertContains(viewer.get("/library/", {"q": "nowhere"}), "No workload matches")
    page = viewer.get("/library/", {"target": other.target_fingerprint})
    assertContains(page, "nvidia/nvidia-a100")
    assert len(page.context["rows"]) == 1


@pytest.mark.parametrize(
    ("order", "first"), [("name", 0), ("-name", 1), ("latency", 1), ("-gflops", 1), ("flop", 0), ("run", 0)]
)
def test_it_sorts(viewer: Client, order: str, first: int) -> None:
    ended(latencies=[(0, 1e-3)])
    ended(latencies=[(1, 1e-4)])
    wanted = (FIRST, SECOND)[first]
    assert api(viewer, order=order)["items"][0]["workload_hash"] == wanted
    assert viewer.get("/library/", {"order": order}).context["rows"][0][0]["workload_hash"] == wanted


def test_it_has_pages(viewer: Client) -> None:
    ended()
    page = api(viewer, limit=1)
    assert (page["total"], page["next"]) == (2, 1)
    rest = api(viewer, limit=1, offset=page["next"])
    assert rest["next"] is None
    assert [one["items"][0]["workload_hash"] for one in (page, rest)] == [FIRST, SECOND]
    assertContains(viewer.get("/library/", {"offset": "1"}), "2 to 2 of 2")


@pytest.mark.parametrize(
    "query",
    [{"offset": "x"}, {"offset": "9" * 40}, {"offset": "9" * 45_000}, {"order": "no"}, {"q": "\0"}, {"target": "\0"}],
)
def test_it_tolerates_an_invalid_query(viewer: Client, query: dict[str, str]) -> None:
    ended()
    assert viewer.get("/library/", query).status_code == 200
    assert viewer.get("/api/v1/library", query).status_code == 422


def test_the_number_of_queries_is_constant(viewer: Client, django_assert_max_num_queries: Any) -> None:
    for _ in range(6):
        ended()
    with django_assert_max_num_queries(16):
        viewer.get("/library/")


def test_it_says_which_tvm_measured_a_best_record(viewer: Client) -> None:
    ended(versions={"apache-tvm": "0.1.0"})
    ended(versions={}, latencies=[(0, 1e-6), (1, 1.0)], synthetic=True)
    page = viewer.get("/library/")
    assertContains(page, "TVM 0.1.0")
    assertNotContains(page, ">synthetic<")


def test_a_workloads_page_compares_its_runs_by_target(viewer: Client) -> None:
    fast, slow = ended(), ended(latencies=[(0, 2e-3)])
    elsewhere = ended(target={"kind": "llvm"}, latencies=[(0, 5e-3)])
    Run.objects.filter(pk=elsewhere.pk).update(target=OTHER_TARGET, target_fingerprint="other")
    shown = viewer.get(f"/api/v1/library/{FIRST}").json()
    assert {one["target_fingerprint"]: [m["run"] for m in one["measured"]] for one in shown["targets"]} == {
        fast.target_fingerprint: [fast.pk, slow.pk],
        "other": [elsewhere.pk],
    }
    page = viewer.get(f"/library/{FIRST}/")
    assertContains(page, "+100.0\u00a0%")
    assertContains(page, "nvidia/nvidia-a100")


def test_a_workload_without_a_valid_trial_has_a_page_without_results(viewer: Client) -> None:
    ended(latencies=[(1, 1e-3)])
    assertContains(viewer.get(f"/library/{FIRST}/"), "No valid trial yet")
    assert api(viewer)["total"] == 1
    for path in ("/library/ff/", "/api/v1/library/ff"):
        assert viewer.get(path).status_code == 404


def test_it_gives_htmx_the_list_alone(viewer: Client) -> None:
    ended()
    assertNotContains(viewer.get("/library/", headers={"HX-Request": "true"}), "<html")
