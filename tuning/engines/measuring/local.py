"""Builds and measures candidates in worker processes, so that a crash or hang costs only the candidate that caused it.

Workers are forked from a fork server that has TVM loaded. Builds use new workers for every batch, since TVM's build
leaks memory. Measurements keep one worker until it dies.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from tuning.engines.wire.protocol import ErrorKind

from . import race, workers
from .outcomes import Evaluation, Failure, Timing, WorkerError
from .pools import Ended, TimedOut, Workers

YIELDING = 10
"""The niceness of what searches and builds while the machine measures. A kernel of a few µs takes as long as its launch, for which a core must be free:
on an H200, one of 4 µs took up to 9.5 while all cores were building."""


class LocalBuilder:
    """Builds the candidates of a batch in parallel."""

    def __init__(  # noqa: PLR0913 - what differs between builders
        self,
        context: ForkServerContext,
        folder: Path,
        *,
        max_workers: int,
        timeout_s: float,
        suffix: str,
        niceness: int = 0,
    ) -> None:
        """Workers are so much nicer than others."""
        self._context = context
        self._folder = folder
        self.workers = max_workers
        """At most so many for each batch. Several batches may be built at once, each on a thread of its own."""
        self._timeout_s = timeout_s
        self._suffix = suffix
        self._niceness = niceness
        self._batches = itertools.count()
        shutil.rmtree(folder, ignore_errors=True)  # What a killed process may have left.
        folder.mkdir(parents=True)

    def build(self, mods: Sequence[str], target: str) -> Iterator[tuple[int, Path | Failure]]:
        """Build modules (TVM's JSON). Yields each one's index with its artifact or failure, in the order they end."""
        # Numbered, because artifacts of earlier batches may still be waiting to be measured.
        batch = next(self._batches)
        paths = [self._folder / f"{batch}-{index}{self._suffix}" for index in range(len(mods))]
        calls = [(workers.build, mod, target, str(path)) for mod, path in zip(mods, paths, strict=True)]
        workers_now = max(1, min(self.workers, len(mods)))
        with Workers(self._context, workers_now, niceness=self._niceness) as pool:
            for index, result in pool.results(calls, self._timeout_s):
                yield index, _failure(result, "build", self._timeout_s) or paths[index]


class LocalRunner:
    """Measures built candidates on this machine, one after another."""

    def __init__(
        self,
        context: ForkServerContext,
        *,
        config: tuple[int, int, int],
        timeout_s: float,
        threads: int | None,
    ) -> None:
        """`threads` are those of a CPU; None if another device measures."""
        self._is_cpu = bool(threads)
        self._config = config
        self._races = race.is_worthwhile(config)
        self._timeout_s = timeout_s
        self._workers = Workers(context, 1, threads)

    def run(
        self,
        path: Path,
        device_type: str,
        args_info: list[Any],
        limit_s: float | None = None,
        cold_bytes: int = 0,
    ) -> Timing | Failure:
        """See `Runner`."""
        how = Evaluation(self._config, limit_s if self._races else None, cold_bytes if self._is_cpu else 0)
        call = (workers.measure, str(path), device_type, args_info, how)
        ((_, result),) = self._workers.results([call], self._timeout_s)
        path.unlink(missing_ok=True)
        if isinstance(result, WorkerError) and device_type != workers.CPU:
            self.close()  # The driver of a GPU may answer all further calls of that process with the same error.
        timing: Timing = result
        return _failure(result, "run", self._timeout_s) or timing

    def close(self) -> None:
        """Stop the worker."""
        self._workers.close()


def _failure(result: Any, step: str, timeout_s: float) -> Failure | None:
    """The failure of the step (`build` or `run`) that this result of a worker's call is, if it is one."""
    kind: ErrorKind = "build" if step == "build" else "run"
    if isinstance(result, TimedOut):
        timeout: ErrorKind = "build_timeout" if step == "build" else "run_timeout"
        return Failure(timeout, f"Took longer than {timeout_s:g} s to {step}, and was stopped.")
    if isinstance(result, Ended):
        return Failure(kind, f"The {step} process {result.how}.")
    return Failure(kind, result.text) if isinstance(result, WorkerError) else None
