"""What users are told when too much is being read already: in the API's shape, in the form that they sent, or as a page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.models import ApiToken
from tests.world import make_user, measured_run
from tuning.host import admission, targets
from tuning.host.admission import inspections

pytestmark = pytest.mark.django_db
OWN = "You already have 1 models, targets or schedules being read, the most at once. Try again in a minute."


@pytest.fixture
def operator(settings: Any) -> Any:
    """Has the only place already. Nothing starts TVM."""
    settings.INSPECTIONS_PER_USER = 1
    targets._answers.clear()
    user = make_user("operator")
    with inspections.ticket(user.pk) as first, inspections.ticket(user.pk):
        first.enter(0)  # And the queue is full.
        yield user


def test_the_api_says_when_to_come_back(operator: Any) -> None:
    client = Client(headers={"authorization": f"Bearer {ApiToken.issue(operator)}"})
    answer = client.post("/api/v1/runs", {"network": "mlp", "target": "llvm"}, "application/json")
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "60"
    assert answer.json() == {"error": {"code": "too_many", "message": OWN}}


def test_the_launch_form_keeps_what_was_entered(operator: Any) -> None:
    client = Client()
    client.force_login(operator)
    answer = client.post("/runs/new/", {"network": "mlp", "target": "llvm", "trials": "77"})
    assert answer.status_code == 422
    assert OWN in answer.text
    assert 'value="77"' in answer.text


def test_a_page_says_it_where_no_form_does(operator: Any) -> None:
    client = Client()
    client.force_login(operator)
    answer = client.post("/runs/new/check/", {"network": "mlp", "target": "llvm"})
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "60"
    assert OWN in answer.text


def test_a_records_page_says_it_and_starts_no_thread(operator: Any) -> None:
    run = measured_run([(0, 1e-3)])
    client = Client()
    client.force_login(operator)
    answer = client.get(f"/runs/{run.pk}/tasks/0/?record=1")
    assert answer.status_code == 200
    assert OWN in answer.text


def test_other_users_have_places(operator: Any) -> None:
    with admission.inspections.ticket(operator.pk + 1) as ticket:
        assert ticket.try_to_enter()
