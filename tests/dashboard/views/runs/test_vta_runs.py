"""Runs for VTA: what packed tasks are unpacked, and that a simulator's times are called so."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests import older_tvm
from tests.world import make_user, measured_run
from tuning.engines.wire.legacy import Vta
from tuning.models import Run
from tuning.reads.artifacts import compile_trouble

SIM, BOARD = "sim_1x16_i8w8a32_15_15_18_17", "pynq_1x16_i8w8a32_15_15_18_17"
WALL_TIME = "Times are the wall time of VTA’s functional simulator"
ARGS = [
    {"name": None, "shape": [1, 16, 14, 14, 1, 16], "dtype": "int8"},
    {"name": None, "shape": [16, 16, 3, 3, 16, 16], "dtype": "int8"},
]

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def tuned(model: str) -> Run:
    """A finished run for VTA with packed convolutions."""
    run = measured_run()
    run.engine, run.status = "autotvm", Run.Status.FINISHED
    run.target = {"kind": "ext_dev", "keys": ["vta", "cpu"], "device": "vta", "model": model}
    run.save()
    run.tasks.update(name="conv2d_packed.vta", args=ARGS, flop=231_211_008.0, flop_derived=True)
    return run


def shown(client: Client, path: str) -> str:
    return client.get(path).content.decode()


@pytest.mark.parametrize("path", ["", "tasks/0/", "trials/"])
def test_a_simulators_times_are_called_so(path: str, viewer: Client) -> None:
    simulated, on_a_board = (shown(viewer, f"/runs/{tuned(model).pk}/{path}") for model in (SIM, BOARD))
    for said in (WALL_TIME, "simulator’s wall time", "Wall time"):
        assert said in simulated
        assert said not in on_a_board
    assert "Latency" in on_a_board


def test_a_simulators_times_give_no_gflops(viewer: Client) -> None:
    for model, has_some in ((SIM, False), (BOARD, True)):
        run = tuned(model)
        told = viewer.get(f"/api/v1/runs/{run.pk}").json()
        assert [task["gflops"] is not None for task in told["tasks"]] == [has_some] * 2
        assert told["simulator"] == (None if has_some else "VTA’s functional simulator")
        records = viewer.get(f"/api/v1/runs/{run.pk}/tasks/0").json()["records"]
        assert [one["gflops"] is not None for one in records] == [has_some] * len(records)


def test_charts_name_what_they_show(viewer: Client) -> None:
    figures = viewer.get(f"/runs/{tuned(SIM).pk}/figures/").json()
    titles = {name: figures[name]["layout"]["yaxis"]["title"]["text"] for name in ("latency", "estimate", "allocation")}
    assert titles == {
        "latency": "Simulator’s wall time",
        "estimate": "Simulator’s wall time",
        "allocation": "Trials of the task",
    }


def test_comparing_with_a_simulator_is_warned_of(viewer: Client) -> None:
    simulated, board = tuned(SIM), tuned(BOARD)
    page = shown(viewer, f"/compare/?runs={board.pk},{simulated.pk}")
    assert f"The times of run {simulated.pk} are the wall time of VTA’s functional simulator" in page
    assert f"The times of run {board.pk} are" not in page
    assert f"{BOARD} (run {board.pk}), {SIM} (run {simulated.pk})" in page


def test_a_packed_task_says_what_it_is_unpacked(viewer: Client) -> None:
    run = tuned(BOARD)
    page = shown(viewer, f"/runs/{run.pk}/tasks/0/")
    for said in (
        "(1, 16, 14, 14, 1, 16) int8",
        "N 1, C 256 = 16 × 16, H 14, W 14",
        "O 256 = 16 × 16, I 256 = 16 × 16, H 3, W 3",
        "Unpacked: 256 filters of 3 × 3 over 256 channels of an image of 14 × 14.",
    ):
        assert said in page
    assert "256 filters of 3 × 3" in shown(viewer, f"/runs/{run.pk}/")


def test_an_ordinary_task_says_nothing_of_packing(viewer: Client) -> None:
    run = measured_run()
    assert "npacked" not in shown(viewer, f"/runs/{run.pk}/tasks/0/")


def test_libraries_for_vta_arent_built_here(viewer: Client) -> None:
    assert "Libraries for VTA aren't built here" in str(compile_trouble(tuned(SIM)))


def test_launching_for_vta_needs_a_build(client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client.force_login(make_user("operator"))
    older_tvm.name(settings, monkeypatch, no_vta="vta: ModuleNotFoundError: No module named 'vta'")
    asked = {"network": "resnet-18", "engine": "autotvm", "target": "ext_dev -device=vta"}
    refused = client.post("/api/v1/runs", asked, content_type="application/json")
    assert refused.status_code == 422
    assert refused.json()["error"]["fields"] == {
        "target": "The interpreter has no VTA: its TVM 0.9.dev0 finds no VTA build (vta: ModuleNotFoundError: No module named 'vta')."
    }
    refused = client.post(
        "/api/v1/runs",
        {"network": "mlp", "target": {"kind": "ext_dev", "device": "vta"}},
        content_type="application/json",
    )
    assert refused.json()["error"]["fields"] == {
        "target": "Only AutoTVM tunes for VTA (ext_dev), under an interpreter that has a VTA build."
    }
    assert not Run.objects.exists()


def test_a_launch_for_vta_has_the_builds_target(client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client.force_login(make_user("operator"))
    older_tvm.name(settings, monkeypatch, vta=Vta("sim", SIM))
    form = client.get("/runs/new/?engine=autotvm").content.decode()
    assert f"tvm0.9 is for <code>sim</code> (<code>{SIM}</code>)" in form
    assert "ext_dev" not in client.get("/runs/new/?engine=auto_scheduler").content.decode()
    asked = {"network": "resnet-18", "engine": "autotvm", "target": "ext_dev -device=vta", "tuner": "random"}
    launched = client.post("/api/v1/runs", asked, content_type="application/json")
    assert launched.status_code == 201, launched.content
    run = Run.objects.get()
    assert (run.target["model"], run.target["host"], run.device) == (SIM, {"kind": "llvm"}, "cpu")
    assert run.simulator
