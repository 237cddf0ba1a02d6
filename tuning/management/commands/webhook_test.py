"""Send a test message to every webhook in the settings."""

from __future__ import annotations

import getpass
from typing import Any

from django.conf import settings
from django.core.management import CommandError

from tuning.management.migrated import MigratedCommand
from tuning.models import Delivery
from tuning.notify import webhooks


class Command(MigratedCommand):
    """Posts a test message to each URL in TUNEBOARD_WEBHOOKS and prints the result."""

    help = __doc__

    def handle(self, **options: Any) -> None:
        """Exit status 1 if a webhook fails, or if there is none."""
        if not settings.WEBHOOKS:
            raise CommandError(
                "There are no webhooks. Set TUNEBOARD_WEBHOOKS, as in TUNEBOARD_WEBHOOKS=https://chat.example/hooks/tune"
            )
        deliveries = webhooks.note_test(getpass.getuser())
        sent = [self._send(delivery) for delivery in deliveries]
        if not all(sent):
            raise CommandError(f"{len(sent) - sum(sent)} of {len(sent)} webhooks failed.")

    def _send(self, delivery: Delivery) -> bool:
        """Try only once, since the user sees the result."""
        delivery.claim()
        try:
            delivery.succeeded(webhooks.post(delivery))
        except webhooks.NotSent as trouble:
            delivery.give_up(str(trouble))
        signed = "signed" if settings.WEBHOOK_SECRET else "not signed"
        self.stdout.write(f"{delivery.url}: {delivery.answer} ({signed})")
        return delivery.status == Delivery.Status.SENT
