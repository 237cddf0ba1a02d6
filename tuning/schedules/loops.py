"""Loops and stages as auto_scheduler's steps change them, without the compute definition that they belong to.

A record has steps only. So the loops that a stage begins with are known as far as steps name them, and extents as far as a split
tells them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

MOST_LOOPS = 1000
"""Of one stage, and stages of one state: a broken record could name any number."""


class BadStep(ValueError):
    """A step that can't be applied."""


@dataclass(eq=False)
class Loop:
    """One loop; `extent` is None where it isn't known."""

    name: str
    extent: int | None = None
    annotation: str = "for"
    pragmas: list[str] = field(default_factory=list)

    @property
    def is_trivial(self) -> bool:
        """Whether it runs once and nothing was asked of it."""
        return self.extent == 1 and self.annotation == "for" and not self.pragmas


@dataclass(eq=False)
class Stage:
    """One stage: its loops from the outermost, and where it is computed if not at the root."""

    name: str
    loops: list[Loop] = field(default_factory=list)
    at: Loop | None = None
    inlined: bool = False
    begun: int = 0
    """Loops that the stage had before any step, as far as they are known."""

    def loop(self, number: int) -> Loop:
        """The loop at this place. Raises `BadStep`."""
        if not 0 <= number < MOST_LOOPS:
            raise BadStep(f"loop {number} of {self.name} can't exist")
        while len(self.loops) <= number:
            self.loops.append(Loop(f"i{self.begun}"))
            self.begun += 1
        return self.loops[number]

    def forget_extents(self) -> None:
        """What a loop covers is inferred again once the stage is computed somewhere else."""
        for loop in self.loops:
            loop.extent = None


class State:
    """All stages, each under the number that the next step knows it by."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps
        """All steps of the record, since some follow what others do."""
        self.stages: list[Stage] = []
        self._begun = 0

    def stage(self, number: int) -> Stage:
        """The stage of this number. Raises `BadStep`."""
        if not 0 <= number < MOST_LOOPS:
            raise BadStep(f"stage {number} can't exist")
        while len(self.stages) <= number:
            self.stages.append(Stage(f"S{self._begun}"))
            self._begun += 1
        return self.stages[number]

    def insert(self, number: int, name: str) -> Stage:
        """A new stage of this number; later ones move on by one."""
        if len(self.stages) >= MOST_LOOPS:
            raise BadStep("there are too many stages")
        names = {stage.name for stage in self.stages}
        added = Stage(
            next(one for one in (name, *(f"{name}{i}" for i in range(2, MOST_LOOPS + 2))) if one not in names)
        )
        self.stages.insert(number, added)
        return added

    def split(self, number: int, place: int, lengths: list[int | None], *, inner: bool) -> list[Loop]:
        """Split a loop: `lengths` are its inner loops' extents, or with `inner` false those of its outer ones."""
        stage = self.stage(number)
        whole = stage.loop(place)
        left = _ceil(whole.extent, prod(lengths)) if None not in lengths and prod(lengths) else None  # type: ignore[arg-type]
        extents = [left, *lengths] if inner else [*lengths, left]
        parts = [Loop(f"{whole.name}.{i}", extent) for i, extent in enumerate(extents)]
        if len(stage.loops) + len(parts) > MOST_LOOPS:
            raise BadStep(f"{stage.name} has too many loops")
        stage.loops[place : place + 1] = parts
        self._move(whole, parts[-1])
        return parts

    def fuse(self, number: int, first: int, last: int) -> Loop:
        """Fuse neighboring loops."""
        stage = self.stage(number)
        stage.loop(last)
        parts = stage.loops[first : last + 1]
        known = [part.extent for part in parts if part.extent is not None]
        fused = Loop("@".join(part.name for part in parts), prod(known) if len(known) == len(parts) else None)
        stage.loops[first : last + 1] = [fused]
        for part in parts:
            self._move(part, fused)
        return fused

    def reorder(self, number: int, order: list[int]) -> list[Loop]:
        """Put the stage's loops into this order. Raises `BadStep` unless it names each of them once."""
        stage = self.stage(number)
        stage.loop(len(order) - 1)
        if sorted(order) != list(range(len(stage.loops))):
            raise BadStep(f"an order of {len(order)} loops doesn't fit the {len(stage.loops)} loops of {stage.name}")
        stage.loops = [stage.loops[place] for place in order]
        return stage.loops

    def _move(self, before: Loop, after: Loop) -> None:
        """Stages computed at a loop go with its innermost part, or with what it was fused into."""
        for stage in self.stages:
            if stage.at is before:
                stage.at = after


def _ceil(extent: int | None, by: int) -> int | None:
    return None if extent is None else -(-extent // by)
