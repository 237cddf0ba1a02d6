"""Sends a test message to every address in TUNEBOARD_WEBHOOKS."""

from __future__ import annotations

import getpass
from typing import Any

from django.conf import settings
from django.core.management import CommandError

from tuning.actions import deliveries
from tuning.management.migrated import MigratedCommand
from tuning.models import Delivery


class Command(MigratedCommand):
    help = __doc__

    def handle(self, **options: Any) -> None:
        """The exit status is 1 when an address didn't accept the message, or when there is none."""
        if not settings.WEBHOOKS:
            raise CommandError("There is no address. List some: TUNEBOARD_WEBHOOKS=https://chat.example/hooks/tune")
        tried = list(map(self._report, deliveries.try_addresses(getpass.getuser())))
        refused = [delivery for delivery in tried if delivery.status != Delivery.Status.SENT]
        if refused:
            raise CommandError(f"{len(refused)} of {len(tried)} addresses didn't accept it.")

    def _report(self, delivery: Delivery) -> Delivery:
        signed = "signed" if settings.WEBHOOK_SECRET else "not signed"
        self.stdout.write(f"{delivery.url}: {delivery.answer} ({signed})")
        return delivery
