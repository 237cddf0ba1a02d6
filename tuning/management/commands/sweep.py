"""The sweep as a process of its own, where `up` isn't used."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand

from tuning.actions.sweeper import Sweeper
from tuning.host.reachable import database_trouble, wait_for


class Command(BaseCommand):
    """Marks runs whose worker died, and queues again what the broker lost, until it is stopped."""

    help = __doc__

    def handle(self, **options: Any) -> None:
        """Runs until a signal ends it."""
        wait_for(database_trouble, self._say)
        sweeper = Sweeper(self._say)
        self._say("Sweeping.")
        try:
            while True:
                sweeper.tick()
                time.sleep(1)
        except KeyboardInterrupt:
            pass

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
