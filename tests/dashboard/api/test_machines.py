"""Machines in the API."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.world import make_machine, make_run, make_user
from tuning.models import Machine

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(make_user("admin"))
    return client


def test_it_lists_machines_and_queues(client: Client) -> None:
    client.force_login(make_user("viewer"))
    make_machine("lab-2")
    make_machine("lab-1", load={"cpus": 8, "others_cores": 1.5})
    run = make_run()
    found = client.get("/api/v1/machines").json()
    assert [one["name"] for one in found["items"]] == ["lab-1", "lab-2"]
    assert found["items"][0] == client.get("/api/v1/machines/lab-1").json()
    assert found["items"][0]["load"] == {"cpus": 8, "others_cores": 1.5}
    queues = {one["name"]: one for one in found["queues"]}
    assert queues["cpu"] == {
        "name": "cpu",
        "device": "cpu",
        "holds": "runs to tune, libraries to verify, runs to measure side by side",
        "length": 1,
        "oldest_at": run.queued_at.isoformat(),
        "served_by": ["lab-1", "lab-2"],
    }
    assert (queues["watch"]["length"], queues["watch"]["served_by"]) == (0, None)


def test_an_admin_drains_resumes_and_forgets(admin: Client) -> None:
    make_machine("lab-1")

    def post(act: str) -> Any:
        return admin.post(f"/api/v1/machines/lab-1/{act}")

    drained = post("drain")
    assert (drained.status_code, drained.json()["state"], drained.json()["draining"]) == (200, "drained", True)
    assert post("resume").json()["state"] == "idle"
    refused = post("forget")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    assert refused.json()["error"]["message"].startswith("lab-1 is idle: drain it")
    post("drain")
    gone = post("forget")
    assert (gone.status_code, gone.content) == (204, b"")
    assert not Machine.objects.exists()


@pytest.mark.parametrize("act", ["", "/drain", "/resume", "/forget"])
def test_an_unknown_machine_is_not_found(admin: Client, act: str) -> None:
    ask = admin.post if act else admin.get
    answer = ask(f"/api/v1/machines/nowhere{act}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("act", ["drain", "resume", "forget"])
def test_only_the_sites_admins_may(client: Client, act: str) -> None:
    client.force_login(make_user("operator"))
    make_machine("lab-1")
    answer = client.post(f"/api/v1/machines/lab-1/{act}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
