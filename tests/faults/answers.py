"""What page and API answer when a change fails because of the machine."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.world import make_run, make_user


def answers_to(error: Exception, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[int, str], tuple[int, Any]]:
    """Status and text of the page, status and error of the API, when stopping a run raises this error."""

    def failing(*_: Any, **__: Any) -> Any:
        raise error

    client = Client(raise_request_exception=False)
    client.force_login(make_user("admin"))
    monkeypatch.setattr("tuning.actions.runs.stop", failing)
    run = make_run()
    page, answer = (client.post(path) for path in (f"/runs/{run.pk}/stop/", f"/api/v1/runs/{run.pk}/stop"))
    return (page.status_code, page.content.decode()), (answer.status_code, answer.json()["error"])
