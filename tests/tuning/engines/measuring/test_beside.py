"""Batches are built beside whoever asks for them, as many at once as there are workers for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tuning.engines.measuring.beside import BuildsBeside
from tuning.engines.measuring.outcomes import Failure

SOON_S = 30.0
FAILED = Failure("build", "no such intrinsic")


class Builder:
    """Builds a module once its name is let through. "bad" fails, and "raise" ends the whole batch."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.begun: list[str] = []
        self._through: dict[str, threading.Event] = {}

    def let(self, *mods: str) -> None:
        for mod in mods:
            self._gate(mod).set()

    def build(self, mods: Sequence[str], _target: str) -> Iterator[tuple[int, Path | Failure]]:
        self.begun += mods
        for index, mod in enumerate(mods):
            assert self._gate(mod).wait(SOON_S)
            if mod == "raise":
                raise OSError("no space left")
            yield index, FAILED if mod == "bad" else Path(mod)

    def _gate(self, mod: str) -> threading.Event:
        return self._through.setdefault(mod, threading.Event())


def test_each_build_is_known_when_it_ends() -> None:
    builder, pieces = Builder(workers=4), list[float]()
    first, bad, last = BuildsBeside(builder).build(["a", "bad", "b"], "{}", pieces.append)
    builder.let("a", "bad")
    assert (first.result(SOON_S), bad.result(SOON_S)) == (Path("a"), FAILED)
    assert not last.done()
    builder.let("b")
    assert last.result(SOON_S) == Path("b")
    assert len(pieces) == 3
    assert all(piece >= 0 for piece in pieces)


def test_another_batch_is_begun_while_workers_have_nothing_to_do() -> None:
    builder = Builder(workers=3)
    beside = BuildsBeside(builder)
    beside.build(["a", "b"], "{}", lambda _: None)
    later = beside.build(["c"], "{}", lambda _: None)
    builder.let("c")
    assert later[0].result(SOON_S) == Path("c"), "it doesn't wait for the first batch"


def test_it_waits_while_all_workers_are_busy() -> None:
    builder = Builder(workers=2)
    beside = BuildsBeside(builder)
    first = beside.build(["a", "b"], "{}", lambda _: None)
    asked = threading.Thread(target=beside.build, args=(["c"], "{}", lambda _: None))
    asked.start()
    asked.join(0.2)
    assert asked.is_alive()
    assert "c" not in builder.begun
    builder.let("a", "c")
    assert first[0].result(SOON_S) == Path("a")
    asked.join(SOON_S)
    assert not asked.is_alive(), "one worker has nothing to do"
    builder.let("b")


def test_an_error_is_that_of_all_that_werent_built_and_blocks_nothing() -> None:
    builder = Builder(workers=1)
    beside = BuildsBeside(builder)
    builder.let("a", "raise", "c")
    built, *broken = beside.build(["a", "raise", "b"], "{}", lambda _: None)
    assert built.result(SOON_S) == Path("a")
    for build in broken:
        with pytest.raises(OSError, match="no space left"):
            build.result(SOON_S)
    assert beside.build(["c"], "{}", lambda _: None)[0].result(SOON_S) == Path("c")
