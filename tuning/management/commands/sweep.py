"""Run the sweep as a separate process, for sites that don't use `up`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from tuning.actions.sweeper import Sweeper
from tuning.host.reachable import database_trouble, wait_for
from tuning.management.migrated import QuickCommand, refuse_newer


class Command(QuickCommand):
    """Marks runs whose worker died as interrupted, and queues again what the broker lost, until it is stopped."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--alive", type=Path, metavar="FILE", help="touch this file while the sweep works, for health checks"
        )

    def handle(self, *, alive: Path | None, **options: Any) -> None:
        wait_for(database_trouble, self._say)
        refuse_newer()
        sweeper = Sweeper(self._say)
        self._say("Sweeping.")
        try:
            while True:
                sweeper.tick()
                if alive and not sweeper.trouble:
                    alive.touch()
                time.sleep(1)
        except KeyboardInterrupt:
            pass

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
