"""Fixtures for tests of engines and of their workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

import pytest

from tests.tuning.engines import running
from tuning.work.warm_parent import WarmParent


@pytest.fixture(scope="package", autouse=True)
def warm_engines() -> Iterator[None]:
    """From the first engine on, a process that has TVM loaded: to load it takes an engine seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuning.work.warm_parent.WAIT_S", 100.0)  # A busy machine loads TVM slowly.
        running.WARM.append(WarmParent("tuning.engines.meta_schedule", "llvm"))
        yield
        running.WARM.pop().stop()


@pytest.fixture(scope="module")
def context() -> Iterator[ForkServerContext]:
    # Pytest's own process has threads, so it can't be forked.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["tests.tuning.engines.preloaded"])
    yield server
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
