"""Templates of launches through the API."""

from __future__ import annotations

import pytest

from tests.dashboard.api.test_people import Api
from tests.world import TARGET, make_user
from tuning.host import targets
from tuning.models import Run
from tuning.queue import jobs

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def without_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "resolve", lambda _: {"target": TARGET, "device": "cpu", "label": "znver4"})
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


def test_an_operator_keeps_renames_and_deletes_them() -> None:
    api = Api(make_user("operator", "ada"))
    made = api("POST", "templates", {"template": "quick", "network": "mlp", "trials": 8})
    assert made.status_code == 201
    template = made.json()
    assert (template["name"], template["project"], template["saved_by"]) == ("quick", "default", "ada")
    assert (template["settings"]["network"], template["settings"]["trials"]) == ("mlp", 8)
    place = f"templates/{template['id']}"
    assert api("GET", "templates").json() == {"items": [template]}
    assert api("GET", place).json() == template
    assert api("PATCH", place, {"name": "slow"}).json() == template | {"name": "slow"}
    assert api("PATCH", place, {"trials": 9}).status_code == 422
    again = api("POST", "templates", {"template": "slow", "replace": True, "network": "mlp", "trials": 9})
    assert (again.status_code, again.json()["id"]) == (200, template["id"])
    assert api("DELETE", place).status_code == 204
    assert api("GET", place).status_code == 404


def test_a_run_is_launched_with_one() -> None:
    api = Api(make_user("operator"))
    api("POST", "templates", {"template": "quick", "network": "mlp", "trials": 8, "seed": 3})
    assert api("POST", "runs", {"template": "quick", "trials": 9}).status_code == 201
    run = Run.objects.get()
    assert (run.network_name, run.trials_budget, run.options["seed"]) == ("mlp", 9, 3)
    assert api("POST", "runs/check", {"template": "quick"}).json()["fields"] == {}
    varied = api("POST", "runs/variants", {"template": "quick", "variants": {"seed": [1, 2]}})
    assert [one["options"]["seed"] for one in varied.json()["items"]] == [1, 2]
    assert api("POST", "runs", {"template": "slow"}).json()["error"]["fields"].keys() == {"template"}


def test_a_viewer_only_looks() -> None:
    Api(make_user("operator"))("POST", "templates", {"template": "quick", "network": "mlp"})
    viewer = Api(make_user("viewer"))
    (template,) = viewer("GET", "templates").json()["items"]
    for method, path, body in (
        ("POST", "templates", {"template": "own", "network": "mlp"}),
        ("PATCH", f"templates/{template['id']}", {"name": "own"}),
        ("DELETE", f"templates/{template['id']}", None),
    ):
        assert viewer(method, path, body).status_code == 403
