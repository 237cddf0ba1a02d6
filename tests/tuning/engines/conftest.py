"""Fixtures for tests of the engine's workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

import pytest


@pytest.fixture(scope="module")
def context() -> Iterator[ForkServerContext]:
    # Pytest's own process has threads, so it can't be forked.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["tests.tuning.engines.preloaded"])
    yield server
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
