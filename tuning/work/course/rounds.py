"""Stores the rounds that an engine tells of."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import asdict

from tuning import models
from tuning.engines.wire.protocol import Ranked, Round
from tuning.models import Run, Task


class RoundRows:
    """The rows of one batch of events. `task_of` finds a task by its index, and raises if there is none."""

    def __init__(self, run: Run, task_of: Callable[[int], Task]) -> None:
        self._run = run
        self._task_of = task_of
        self._rounds: list[models.Round] = []
        self._rankings: list[models.Ranking] = []

    def take(self, event: object) -> None:
        """Keep the event if it is of a round."""
        if not isinstance(event, (Round, Ranked)):
            return
        values = asdict(event)
        index = values.pop("task")
        task = None if index is None else self._task_of(index)
        if isinstance(event, Round):
            self._rounds.append(models.Round(run=self._run, task=task, **values))
        else:
            self._rankings.append(models.Ranking(run=self._run, task=task, **values))

    def save(self) -> None:
        """To be called within the batch's transaction."""
        models.Round.objects.bulk_create(self._rounds)
        models.Ranking.objects.bulk_create(self._rankings)
