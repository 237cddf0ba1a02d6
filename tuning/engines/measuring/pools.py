"""Pools of worker processes. A call whose worker is killed from outside is repeated: it isn't to blame."""

from __future__ import annotations

import logging
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from types import SimpleNamespace
from typing import Any

from pebble import CONSTS, ProcessExpired, ProcessPool
from pebble.pool import process as pebble_process
from typing_extensions import Self

from tuning.engines.wire.signals import signal_name

from . import workers

logger = logging.getLogger("tuneboard")
untyped_pebble: Any = pebble_process
# Pebble's time limits go by the time of day. If that is set, all calls would time out, or none.
untyped_pebble.time = SimpleNamespace(time=time.monotonic, sleep=time.sleep)
CONSTS.term_timeout = 0.2  # A worker that hangs in TVM doesn't react to SIGTERM, so don't wait the default 3 s.

ATTEMPTS = 3
"""How often a call is made whose worker is killed. The kernel also kills one that uses up the machine's memory."""
GRACE_S = 60.0
"""A call that has neither ended nor timed out by now was lost with its worker. Workers start sooner, even on a busy machine."""
NOT_REPORTED = 255
"""The exit code that `multiprocessing` gives to a worker that ended with its fork server."""


@dataclass(frozen=True)
class TimedOut:
    """The call took too long, and its worker was stopped."""


@dataclass(frozen=True)
class Ended:
    """The worker ended before the call did."""

    how: str
    """As in "The build process …"."""
    killed: bool
    """From outside, as far as can be known."""


class Workers:
    """Worker processes forked from the context's server, with as many `threads` as measured functions may use."""

    def __init__(
        self, context: ForkServerContext, number: int, threads: int | None = None, *, niceness: int = 0
    ) -> None:
        self._context = context
        self._number = number
        self._threads = threads
        self._niceness = niceness
        self._pool: ProcessPool | None = None

    def results(self, calls: Sequence[tuple[Any, ...]], timeout_s: float) -> Iterator[tuple[int, Any]]:
        """Make the calls, each a function with its arguments, and yield each one's index with its result when it ends.

        The result is what the function returned, or a `WorkerError`, `TimedOut` or `Ended`.
        """
        left, attempts = dict(enumerate(calls)), Counter[int]()
        while left:
            for index, result in self._attempt(left, timeout_s):
                attempts[index] += 1
                if isinstance(result, Ended) and result.killed and attempts[index] < ATTEMPTS:
                    continue
                left.pop(index)
                yield index, result
            if left:
                logger.warning("%d candidates are tried again, because their workers were killed.", len(left))
                self.close()  # Its other workers may wait for something that the killed ones held.

    def close(self) -> None:
        """Stop the workers. New ones are started when they are needed again."""
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]
            self._pool.join()
        self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _attempt(self, calls: Mapping[int, tuple[Any, ...]], timeout_s: float) -> Iterator[tuple[int, Any]]:
        """Make each call once, or fewer if the fork server is killed. `calls` may change once this has begun."""
        waiting: dict[Future[Any], int] = {}
        try:
            pool = self._ready()
            for index, call in calls.items():
                waiting[pool.schedule(workers.guarded, call, timeout=timeout_s)] = index
        except RuntimeError as error:  # The pool broke, or couldn't be started.
            yield from [(index, Ended(f"couldn't be started: {error}", killed=True)) for index in calls]
            return
        try:
            for future in futures.as_completed(waiting, timeout_s * len(waiting) + GRACE_S):
                result = _result(future)
                yield waiting.pop(future), result
                if isinstance(result, Ended) and result.how == _ending(NOT_REPORTED):
                    return  # All workers have ended with the server.
        except futures.TimeoutError:
            yield from [(index, Ended("gave no answer", killed=True)) for index in waiting.values()]

    def _ready(self) -> ProcessPool:
        if self._pool is not None and not self._pool.active:
            self.close()
        if self._pool is None:
            self._pool = ProcessPool(
                self._number,
                initializer=workers.initialize,
                initargs=(self._threads, self._niceness),
                context=self._context,
            )
        return self._pool


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except futures.TimeoutError:  # Another class than the builtin before Python 3.11.
        return TimedOut()
    except ProcessExpired as error:
        code = error.exitcode or 0
        return Ended(_ending(code), killed=code in (-signal.SIGKILL, NOT_REPORTED))
    except BrokenProcessPool as error:
        return Ended(f"broke: {error}", killed=True)


def _ending(exitcode: int) -> str:
    if exitcode >= 0:
        return f"exited with status {exitcode}"
    return f"was killed by {signal_name(-exitcode)} ({signal.strsignal(-exitcode)})"
