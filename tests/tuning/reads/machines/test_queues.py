"""What waits on the site, since when, and which machines serve it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tests.world import make_compilation, make_extraction, make_machine, make_network, make_run, set_beside
from tuning.models import Delivery, Import, Project
from tuning.reads.machines.queues import SiteQueueDict, queues

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)


def found() -> dict[str, SiteQueueDict]:
    return {one["name"]: one for one in queues()}


def test_runs_and_libraries_wait_for_a_device() -> None:
    make_machine("lab-1")
    make_run(queued_at=NOON)
    proven = make_run(status="finished")
    make_compilation(proven, status="queued", stage="prove", queued_at=NOON - timedelta(hours=1))
    make_run(status="running")
    set_beside([proven, make_run(status="finished")], queued_at=NOON)
    cpu = found()["cpu"]
    assert (cpu["length"], cpu["oldest_at"]) == (3, (NOON - timedelta(hours=1)).isoformat())
    assert cpu["served_by"] == ["lab-1"]


def test_only_machines_that_take_work_serve() -> None:
    make_machine("ready", devices=["cpu", "cuda:0"])
    make_machine("drained", draining_at=NOON)
    make_machine("lost", heartbeat_at=NOON - timedelta(days=400))
    make_machine("old", trouble="too old")
    rows = found()
    assert {rows[name]["served_by"][0] for name in ("cpu", "cuda:0", "compile", "extract", "webhook")} == {"ready"}  # type: ignore[index]
    assert rows["cpu"]["served_by"] == ["ready"]


def test_devices_of_trackers_and_those_that_nobody_serves_are_shown_while_something_waits() -> None:
    make_run(device="rpc:lab/pi")
    make_run(device="cuda:1")
    rows = found()
    assert rows["rpc:lab/pi"]["served_by"] is None
    assert (rows["cuda:1"]["length"], rows["cuda:1"]["served_by"]) == (1, [])
    assert "rpc:lab/other" not in rows


def test_what_needs_no_device_has_queues_of_its_own() -> None:
    make_compilation(make_run(status="finished"), status="queued", stage="build", queued_at=NOON)
    make_extraction(make_network(), status="queued", finished_at=None)
    log = Import.objects.create(project=Project.objects.default())
    Delivery.objects.create(
        url="http://x", kind="test", message={}, status="waiting", due_at=NOON - timedelta(days=400)
    )
    Delivery.objects.create(
        url="http://x", kind="test", message={}, status="waiting", due_at=NOON + timedelta(days=9999)
    )
    make_run(device="", origin="watched", queued_at=NOON)
    rows = found()
    assert {name: rows[name]["length"] for name in ("compile", "extract", "webhook", "watch")} == {
        "compile": 1,
        "extract": 2,
        "webhook": 1,
        "watch": 1,
    }
    assert rows["compile"]["oldest_at"] == rows["watch"]["oldest_at"] == NOON.isoformat()
    assert rows["extract"]["oldest_at"] == log.created_at.isoformat()
    assert "" not in rows
