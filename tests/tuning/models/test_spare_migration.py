"""Runs of versions without other algorithms go on without them."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps

from tests.world import make_run
from tuning.models import Run

pytestmark = pytest.mark.django_db


def test_runs_that_computed_directly_still_do() -> None:
    old = make_run(options={"seed": 1})
    new = make_run(options={"algorithms": "fastest"})
    other = make_run(options={}, engine="auto_scheduler")
    import_module("tuning.migrations.0037_spare_tasks").keep_direct(apps, None)
    assert dict(Run.objects.values_list("pk", "options")) == {
        old.pk: {"seed": 1, "algorithms": "direct"},
        new.pk: {"algorithms": "fastest"},
        other.pk: {},
    }
