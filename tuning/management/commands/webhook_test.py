"""Sends a test message to every address of the settings."""

from __future__ import annotations

import getpass
from typing import Any

from django.conf import settings
from django.core.management import CommandError

from tuning.management.migrated import MigratedCommand
from tuning.models import Delivery
from tuning.notify import webhooks


class Command(MigratedCommand):
    """Posts a test message to each address of TUNEBOARD_WEBHOOKS at once and says what came of it."""

    help = __doc__

    def handle(self, **options: Any) -> None:
        """The exit status is 1 when an address didn't take it, or when there is none."""
        if not settings.WEBHOOKS:
            raise CommandError("There is no address. Name some: TUNEBOARD_WEBHOOKS=https://chat.example/hooks/tune")
        deliveries = webhooks.note_test(getpass.getuser())
        taken = [self._send(delivery) for delivery in deliveries]
        if not all(taken):
            raise CommandError(f"{len(taken) - sum(taken)} of {len(taken)} addresses didn't take it.")

    def _send(self, delivery: Delivery) -> bool:
        """One attempt: who tests by hand sees what is wrong."""
        delivery.claim()
        try:
            delivery.succeeded(webhooks.post(delivery))
        except webhooks.NotSent as trouble:
            delivery.give_up(str(trouble))
        signed = "signed" if settings.WEBHOOK_SECRET else "not signed"
        self.stdout.write(f"{delivery.url}: {delivery.answer} ({signed})")
        return delivery.status == Delivery.Status.SENT
