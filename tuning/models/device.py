"""Whose turn a device is: it measures one run, or one library, at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import models, transaction


class DeviceTurn(models.Model):
    """A row for each device. It is locked to decide whose turn is next, since that depends on two tables."""

    device = models.CharField(max_length=60, primary_key=True)

    def __str__(self) -> str:
        return self.device


@contextmanager
def deciding(device: str) -> Iterator[None]:
    """A transaction in which nobody else decides whose turn the device is."""
    with transaction.atomic():
        DeviceTurn.objects.get_or_create(device=device)
        DeviceTurn.objects.select_for_update().get(device=device)
        yield
