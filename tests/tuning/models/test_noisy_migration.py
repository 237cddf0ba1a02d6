"""Noisy trials that were recorded before runs counted them."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps

from tests.world import measured_run
from tuning.models import Run

pytestmark = pytest.mark.django_db


def test_the_migration_counts_noisy_trials_of_each_run() -> None:
    some, none = measured_run(), measured_run(device="elsewhere")
    some.trials.filter(number__gte=2).update(noisy=True)
    import_module("tuning.migrations.0026_noisy_runs").count_noisy_trials(apps, None)
    assert dict(Run.objects.values_list("pk", "trials_noisy")) == {some.pk: 2, none.pk: 0}
