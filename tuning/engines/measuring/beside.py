"""Builds batches beside the thread that asks for it, so that it searches meanwhile and no core waits for a batch to be complete."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from .outcomes import Failure


class Builder(Protocol):
    """Builds several batches at once, each on a thread of its own."""

    workers: int
    """As many keep the machine busy."""

    def build(self, mods: Sequence[str], target: str) -> Iterator[tuple[int, Path | Failure]]:
        """As `LocalBuilder.build`."""


class BuildsBeside:
    """Builds each batch on a thread of its own, with workers of its own."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._building = 0
        """Candidates."""
        self._changed = threading.Condition()

    def build(self, mods: Sequence[str], target: str, took: Callable[[float], None]) -> list[Future[Path | Failure]]:
        """Begin to build modules (TVM's JSON), and give what will become of each. `took` is told how many seconds have gone by, piece by piece.

        Waits while as many candidates are being built as there are workers: what is searched later knows more.
        """
        builds: list[Future[Path | Failure]] = [Future() for _ in mods]
        with self._changed:
            self._changed.wait_for(lambda: self._building < self._builder.workers)
            self._building += len(mods)
        threading.Thread(target=self._build, args=(mods, target, builds, took), name="build", daemon=True).start()
        return builds

    def _build(
        self, mods: Sequence[str], target: str, builds: list[Future[Path | Failure]], took: Callable[[float], None]
    ) -> None:
        left, since = dict(enumerate(builds)), time.monotonic()
        try:
            for index, outcome in self._builder.build(mods, target):
                now = time.monotonic()
                took(now - since)
                since = now
                self._ended(1)
                left.pop(index).set_result(outcome)
        except Exception as error:  # noqa: BLE001  whoever waits for the builds handles it
            self._ended(len(left))
            for build in left.values():
                build.set_exception(error)

    def _ended(self, candidates: int) -> None:
        with self._changed:
            self._building -= candidates
            self._changed.notify()
