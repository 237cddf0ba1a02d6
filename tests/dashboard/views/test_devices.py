"""Devices of this machine, of trackers and under older TVMs, on the page and in the API; where a tracker answers, it is a real one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests import older_tvm
from tests.live import free_port
from tests.tuning.engines.trackers import KEY, RpcDevices
from tests.world import claimed, make_compilation, make_run, make_user, set_beside
from tuning.actions import advice, sweeping
from tuning.engines.wire.legacy import Probed, Vta
from tuning.engines.wire.pytorch import TorchProbed
from tuning.engines.wire.tracker import Address
from tuning.host import interpreters, pytorch
from tuning.host.interpreters import Asked
from tuning.models import Project, Run, TrackerSample
from tuning.reads import device_status

pytestmark = pytest.mark.django_db
LOCALHOST = "127.0.0.1"


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


@pytest.fixture
def silent(settings: Any) -> Address:
    """The address of a tracker that is down."""
    address = Address(LOCALHOST, free_port())
    settings.TRACKERS = {"lab": address}
    return address


@pytest.fixture
def lab(settings: Any, tmp_path: Path) -> Iterator[RpcDevices]:
    with RpcDevices(tmp_path) as lab:
        settings.TRACKERS = {"lab": lab.address}
        lab.add()
        lab.wait_until_there_are(1)
        yield lab


def recorded(ago_s: float, **values: Any) -> TrackerSample:
    return TrackerSample.objects.create(tracker="lab", at=timezone.now() - timedelta(seconds=ago_s), **values)


def queue(total: int, free: int, pending: int = 0) -> dict[str, Any]:
    return {KEY: {"key": KEY, "total": total, "free": free, "pending": pending}}


def test_it_shows_who_uses_this_machine(viewer: Client) -> None:
    running, waiting = claimed(make_run(name="first")), make_run(name="second")
    (cpu,) = viewer.get("/api/v1/devices").json()["local"]
    assert cpu == {
        "device": "cpu",
        "runs": [{"id": running.pk, "name": "first", "status": "running"}],
        "queued": [{"id": waiting.pk, "name": "second", "status": "queued"}],
        "proofs": [],
        "queued_proofs": [],
        "side_by_sides": [],
        "queued_side_by_sides": [],
    }


def test_it_says_how_to_configure_a_tracker(viewer: Client) -> None:
    assert "TUNEBOARD_TRACKERS" in viewer.get("/machines/").content.decode()


def test_it_says_how_to_add_an_older_tvm(viewer: Client) -> None:
    assert viewer.get("/api/v1/devices").json()["interpreters"] == []
    assert "TUNEBOARD_LEGACY_PYTHON" in viewer.get("/machines/").content.decode()


def test_it_shows_what_an_older_tvm_can_do(viewer: Client, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "xgboost can't be imported: ImportError"
    older_tvm.name(settings, monkeypatch, tuners=["random", "ga"], xgboost=missing, vta=Vta("sim", "1x16"))
    (shown,) = viewer.get("/api/v1/devices").json()["interpreters"]
    assert (shown["name"], shown["tvm"], shown["error"]) == ("tvm0.9", "0.9.dev0", None)
    assert shown["targets"] == {"llvm": None, "cuda": "RuntimeError: TVM finds no such device"}
    assert shown["vta"] == {"target": "sim", "model": "1x16", "trouble": None, "bitstreams": []}
    page = viewer.get("/machines/").content.decode()
    for said in ("0.9.dev0", "(random, ga)", "VTA", "TVM finds no such device", "xgboost can&#x27;t be imported"):
        assert said in page
    assert "TUNEBOARD_LEGACY_PYTHON" not in page


@pytest.mark.parametrize(
    ("asked", "said"), [(Asked(error="/opt/x hangs at the step."), "/opt/x hangs"), (Asked(), "It is being asked")]
)
def test_it_shows_why_an_older_tvm_is_not_ready(
    viewer: Client, settings: Any, monkeypatch: pytest.MonkeyPatch, asked: Asked[Probed], said: str
) -> None:
    settings.LEGACY_PYTHON = {"tvm0.9": Path("/opt/x")}
    monkeypatch.setattr(interpreters, "look", lambda _name: asked)
    (shown,) = viewer.get("/api/v1/devices").json()["interpreters"]
    assert (shown["tvm"], shown["error"]) == (None, asked.error)
    assert said in viewer.get("/machines/").content.decode()


@pytest.mark.parametrize(
    ("asked", "told", "said"),
    [
        (Asked(TorchProbed({"torch": "2.13.0"})), {"error": None, "versions": {"torch": "2.13.0"}}, "torch 2.13.0"),
        (Asked(error="/opt/x hangs."), {"error": "/opt/x hangs.", "versions": {}}, "/opt/x hangs."),
        (Asked(), {"error": None, "versions": {}}, "It is being asked what it has"),
        (None, None, "Machines"),
    ],
)
def test_it_shows_the_interpreter_with_pytorch(
    viewer: Client, monkeypatch: pytest.MonkeyPatch, asked: Asked[TorchProbed] | None, told: Any, said: str
) -> None:
    monkeypatch.setattr(pytorch, "look", lambda: asked)
    assert viewer.get("/api/v1/devices").json()["torch"] == told
    page = viewer.get("/machines/").content.decode()
    assert said in page
    assert ('data-role="torch"' in page) == (asked is not None)


def test_verifying_a_library_uses_a_device_too(viewer: Client) -> None:
    proven = make_compilation(make_run(name="first", status="finished"), status="running", stage="prove")
    waiting = make_compilation(make_run(name="second", status="finished"), status="queued", stage="prove")
    make_compilation(make_run(name="third", status="finished"), status="running", stage="build")
    (cpu,) = viewer.get("/api/v1/devices").json()["local"]
    assert (cpu["runs"], cpu["queued"]) == ([], [])
    assert cpu["proofs"] == [{"id": proven.pk, "run": "first", "status": "running"}]
    assert cpu["queued_proofs"] == [{"id": waiting.pk, "run": "second", "status": "queued"}]


def test_measuring_runs_side_by_side_uses_a_device_too(viewer: Client) -> None:
    runs = [make_run(name=name, status="finished") for name in ("first", "second")]
    measured, waiting = set_beside(runs), set_beside(runs)
    assert measured.claim()
    keys = [run.pk for run in runs]
    (cpu,) = viewer.get("/api/v1/devices").json()["local"]
    assert (cpu["runs"], cpu["proofs"]) == ([], [])
    assert cpu["side_by_sides"] == [{"id": measured.pk, "runs": keys, "status": "running"}]
    assert cpu["queued_side_by_sides"] == [{"id": waiting.pk, "runs": keys, "status": "queued"}]
    Run.objects.filter(pk=keys[1]).update(project=Project.objects.create(name="vision"))
    (cpu,) = viewer.get("/api/v1/devices").json()["local"]
    assert cpu["side_by_sides"] == [{"id": None, "runs": [], "status": "running"}], "one of them isn't theirs to see"


def test_it_says_since_when_a_tracker_is_down(viewer: Client, silent: Address) -> None:
    recorded(50, queues=queue(2, 1))
    down = recorded(40, error="refused")
    recorded(25, error="refused")
    make_run(device=f"rpc:lab/{KEY}")
    (tracker,) = viewer.get("/api/v1/devices").json()["trackers"]
    assert tracker["error"] == f"The tracker at {silent} can't be reached: Connection refused."
    assert tracker["error_since"] == down.at.isoformat()
    assert [(key["key"], key["total"], len(key["queued"])) for key in tracker["keys"]] == [(KEY, None, 1)]
    assert tracker["history"] == [
        {"key": KEY, "total": [2, None, None], "in_use": [1, None, None], "pending": [0, None, None]}
    ]
    page = viewer.get("/machines/", headers={"HX-Request": "true"}).content.decode()
    assert "refused. It hasn’t answered since" in page
    assert "<html" not in page
    figure = viewer.get("/machines/trackers/figures/").json()["lab"]
    assert [trace["y"] for trace in figure["data"]] == [[1, None, None], [0, None, None]]


def test_a_long_queue_is_cut_short_on_the_page(viewer: Client, silent: Address) -> None:
    for number in range(7):
        make_run(name=f"waits-{number}", device=f"rpc:lab/{KEY}")
    page = viewer.get("/machines/").content.decode()
    assert "waits-4" in page
    assert "waits-5" not in page
    assert "and 2 more" in page


def test_the_chart_has_a_gap_where_nothing_was_recorded(viewer: Client, silent: Address) -> None:
    for ago_s in (900, 885, 30, 15):
        recorded(ago_s, queues=queue(2, 0))
    (trace, _) = viewer.get("/machines/trackers/figures/").json()["lab"]["data"]
    assert trace["y"] == [2, 2, None, 2, 2]
    assert not trace["connectgaps"]


def test_another_service_at_the_address_is_not_a_tracker(viewer: Client, settings: Any) -> None:
    with socket.socket() as listener:
        listener.bind((LOCALHOST, 0))
        listener.listen()
        settings.TRACKERS = {"lab": Address(LOCALHOST, listener.getsockname()[1])}
        (tracker,) = viewer.get("/api/v1/devices").json()["trackers"]
    assert "no answer within 1 s" in tracker["error"]
    assert tracker["error_since"] is None, "no sample was recorded"


@pytest.mark.tvm
def test_it_shows_a_trackers_queue_and_its_history(viewer: Client, lab: RpcDevices) -> None:
    run = claimed(make_run(device=f"rpc:lab/{KEY}"))
    recorded(4000, queues=queue(7, 7))
    recorded(10, error="refused")
    sweeping.sample_trackers()
    (tracker,) = viewer.get("/api/v1/devices").json()["trackers"]
    (key,) = tracker["keys"]
    assert (tracker["error"], tracker["error_since"]) == (None, None)
    assert (key["key"], key["device"], key["total"], key["pending"]) == (KEY, f"rpc:lab/{KEY}", 1, 0)
    assert [one["id"] for one in key["runs"]] == [run.pk]
    assert tracker["history"][0]["total"] == [None, 1]
    assert TrackerSample.objects.count() == 2, "samples older than an hour are deleted"
    assert device_status.device_choices() == ["this machine", f"rpc:lab/{KEY}"]


@pytest.mark.tvm
def test_a_run_is_launched_on_a_remote_device(lab: RpcDevices, client: Client) -> None:
    client.force_login(make_user())
    board = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
    order = {"network": "matmul", "target": board, "device": f"rpc:lab/{KEY}"}
    launched = client.post("/api/v1/runs", order, content_type="application/json")
    assert launched.status_code == 201, launched.content
    assert launched.json()["device"] == f"rpc:lab/{KEY}"
    unknown = client.post("/api/v1/runs", order | {"device": "rpc:lab/other"}, content_type="application/json")
    assert unknown.json()["error"]["fields"] == {
        "device": f"The tracker at {lab.address} has no device with the key other. Keys: {KEY}."
    }
    warned = advice.check({"network": "matmul", "device": f"rpc:lab/{KEY}"}, None)["warnings"]
    assert "enter that device's target" in warned["target"]
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("rpc:elsewhere/board", "There is no tracker 'elsewhere'. Allowed: lab."),
        ("rpc:lab/board", "can't be reached: Connection refused."),
        ("rpc:lab", "write rpc:TRACKER/KEY"),
        ("rpc:lab/a b", "write rpc:TRACKER/KEY"),
        ("10.0.0.5:9190", "Must be 'this machine'"),
        (7, "Must be 'this machine'"),
    ],
)
def test_an_unknown_device_is_refused(client: Client, silent: Address, device: Any, words: str) -> None:
    client.force_login(make_user())
    given = {"network": "matmul", "device": device}
    answer = client.post("/api/v1/runs", given, content_type="application/json")
    assert answer.status_code == 422
    assert words in answer.json()["error"]["fields"]["device"]
    assert not Run.objects.exists()


def test_the_form_offers_devices_of_configured_trackers_only(client: Client, silent: Address) -> None:
    client.force_login(make_user())
    assert 'name="device"' not in client.get("/runs/new/").content.decode()
    recorded(5, queues=queue(1, 1))
    assert f'<option value="rpc:lab/{KEY}">rpc:lab/{KEY}</option>' in client.get("/runs/new/").content.decode()
    assert device_status.choices() == [f"rpc:lab/{KEY}"]
