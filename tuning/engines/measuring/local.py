"""Builds and measures candidates in worker processes, so that a crash or hang costs only the candidate that caused it.

Workers are forked from a fork server that has TVM loaded. Builds use new workers for every batch, since TVM's build
leaks memory. Measurements keep one worker until it dies.
"""

from __future__ import annotations

import itertools
import shutil
import signal
from collections.abc import Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from pebble import CONSTS, ProcessExpired, ProcessPool

from tuning.engines.wire.protocol import ErrorKind
from tuning.engines.wire.signals import signal_name

from . import race, workers
from .outcomes import Failure, Timing, WorkerError

CONSTS.term_timeout = 0.2  # A worker that hangs in TVM doesn't react to SIGTERM, so don't wait the default 3 s.


class LocalBuilder:
    """Builds the candidates of a batch in parallel."""

    def __init__(
        self, context: ForkServerContext, folder: Path, *, max_workers: int, timeout_s: float, suffix: str
    ) -> None:
        self._context = context
        self._folder = folder
        self._max_workers = max_workers
        self._timeout_s = timeout_s
        self._suffix = suffix
        self._batches = itertools.count()
        shutil.rmtree(folder, ignore_errors=True)  # What a killed process may have left.
        folder.mkdir(parents=True)

    def build(self, mods: Sequence[str], target: str) -> Iterator[tuple[int, Path | Failure]]:
        """Build modules (TVM's JSON). Yields each one's index with its artifact or failure, in the order they end."""
        # Numbered, because artifacts of earlier batches may still be waiting to be measured.
        batch = next(self._batches)
        paths = [self._folder / f"{batch}-{index}{self._suffix}" for index in range(len(mods))]
        if not mods:
            return
        with self._pool(len(mods)) as pool:
            indices: dict[Future[Any], int] = {
                pool.schedule(workers.guarded, (workers.build, mod, target, str(path)), timeout=self._timeout_s): index
                for index, (mod, path) in enumerate(zip(mods, paths, strict=True))
            }
            for future in futures.as_completed(indices):
                result = _result(future, "build", self._timeout_s)
                index = indices[future]
                yield index, result if isinstance(result, Failure) else paths[index]

    def _pool(self, builds: int) -> ProcessPool:
        return ProcessPool(
            min(self._max_workers, builds), initializer=workers.initialize, initargs=(None,), context=self._context
        )


class LocalRunner:
    """Measures built candidates on this machine, one after another."""

    def __init__(
        self, context: ForkServerContext, *, config: tuple[int, int, int], timeout_s: float, threads: int | None
    ) -> None:
        self._context = context
        self._config = config
        self._races = race.is_worthwhile(config)
        self._timeout_s = timeout_s
        self._threads = threads
        self._pool: ProcessPool | None = None

    def run(self, path: Path, device_type: str, args_info: list[Any], limit_s: float | None = None) -> Timing | Failure:
        """See `Runner`."""
        call = (workers.measure, str(path), device_type, args_info, self._config, limit_s if self._races else None)
        future = self._ready_pool().schedule(workers.guarded, call, timeout=self._timeout_s)
        result: Timing | Failure = _result(future, "run", self._timeout_s)
        path.unlink(missing_ok=True)
        return result

    def _ready_pool(self) -> ProcessPool:
        if self._pool is None or not self._pool.active:
            self._pool = ProcessPool(
                1, initializer=workers.initialize, initargs=(self._threads,), context=self._context
            )
        return self._pool

    def close(self) -> None:
        """Stop the worker."""
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]
            self._pool.join()


def _result(future: Future[Any], step: str, timeout_s: float) -> Any:
    """The worker's result, or a failure of the step (`build` or `run`) that says what happened to the worker."""
    kind: ErrorKind = "build" if step == "build" else "run"
    try:
        result = future.result()
    except futures.TimeoutError:  # Another class than the builtin before Python 3.11.
        timeout: ErrorKind = "build_timeout" if step == "build" else "run_timeout"
        return Failure(timeout, f"Took longer than {timeout_s:g} s to {step}, and was stopped.")
    except ProcessExpired as error:
        return Failure(kind, f"The {step} process {_ending(error.exitcode or 0)}.")
    except BrokenProcessPool as error:
        return Failure(kind, f"The {step} process broke: {error}")
    return Failure(kind, result.text) if isinstance(result, WorkerError) else result


def _ending(exitcode: int) -> str:
    if exitcode >= 0:
        return f"exited with status {exitcode}"
    return f"was killed by {signal_name(-exitcode)} ({signal.strsignal(-exitcode)})"
