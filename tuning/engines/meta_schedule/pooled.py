"""The tuning loop of a run on many machines: candidates leave as events, and results arrive as controls.

TVM's own loop waits for all results of a task's batch before it generates the task's next one. So machines would wait for
the search, and the search for the slowest of them. This loop generates with what is known so far, and passes each result on
when it has arrived. It consists of TVM's public parts; builder and runner aren't among them, since nothing is built here.

TVM's strategies and databases aren't thread-safe: a thread of its own commits and reports trials as they end, and what
the search learns from them waits until the search asks for it.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import queue
import secrets
import threading
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import tvm
import zstandard
from tvm.s_tir import meta_schedule as ms

from tuning.engines.events import EventWriter
from tuning.engines.measuring.arguments import described
from tuning.engines.measuring.outcomes import Failure, Timing
from tuning.engines.wire.errors import in_one_line
from tuning.engines.wire.protocol import Candidate, Measured, Slots, Start
from tuning.engines.wire.protocol import Reference as Asked
from tuning.logs.meta_schedule import record_of

from .rounds.ranking import learn
from .rounds.stopwatch import RoundTimes
from .scheduler import NO_LIMIT
from .search import Search
from .trials import Trials
from .trust.pooled_reference import PooledReference
from .trust.rebuilding import candidate_of

logger = logging.getLogger("tuneboard")


@dataclass(frozen=True)
class Ended:
    """A trial that is committed, and that the search doesn't know of yet."""

    task: int
    candidate: Any
    outcome: Timing | Failure

    @property
    def was_built(self) -> bool:
        """As in `Failure`."""
        return isinstance(self.outcome, Timing) or self.outcome.was_built

    def result(self) -> Any:
        """TVM's result."""
        if isinstance(self.outcome, Failure):
            return ms.runner.RunnerResult(None, self.outcome.text)
        return ms.runner.RunnerResult(self.outcome.run_secs, None)


class CandidatesOut:
    """The candidates that are out with the pool's machines, and what became of those that ended.

    Its methods are for the search's thread. Another one ends trials.
    """

    def __init__(
        self,
        start: Start,
        trials: Trials,
        target: Any,
        events: EventWriter,
        from_pool: queue.SimpleQueue[Measured | Slots],
    ) -> None:
        """`start` is that of a run with a pool."""
        assert start.pool
        self._pool = start.pool
        self._slots = start.pool.slots
        self._trials = trials
        self._target = target
        self._events = events
        self._from_pool = from_pool
        self._out: dict[str, tuple[int, Any, RoundTimes]] = {}
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        # Answers to an earlier process of the run may still be on their way.
        process = secrets.token_hex(8)
        self._ids = (f"{process}-{number}" for number in itertools.count(1))
        self._reference = (
            self._reference_of(start, start.reference, f"{process}-reference") if start.reference else None
        )
        threading.Thread(target=self._end_trials, name="trials", daemon=True).start()

    @property
    def too_few(self) -> bool:
        """Whether the machines might soon have to wait for more."""
        return len(self._out) < math.ceil(self._slots * self._pool.look_ahead)

    def hand_out(self, task: int, candidates: list[Any], times: RoundTimes) -> None:
        """Have the candidates of a round measured, in this order, best first."""
        limit_s = self._trials.race_limit_s(task)
        for candidate in candidates:
            id_ = next(self._ids)
            self._out[id_] = (task, candidate, times)
            self._events.send(self._sent(id_, task, candidate, limit_s))

    def take_ended(self) -> Iterator[Ended]:
        """What has ended since the last time."""
        while not self._ended.empty():
            yield self._ended.get()

    def _reference_of(self, start: Start, asked: Asked, id_: str) -> PooledReference:
        """If an earlier process has chosen it, from the run's records."""
        reference = PooledReference(asked, self._events.send, self._trials.report_reference)
        if asked.trial is not None:
            reference.use(asked.trial, self._recorded(record_of(Path(start.work_dir), asked.trial), id_))
        return reference

    def _recorded(self, text: str | None, id_: str) -> Candidate | None:
        if text is None:
            return None
        try:
            (shash, _), _ = json.loads(text)
            return self._sent(id_, self._trials.task_of(shash), candidate_of(text))
        except Exception as error:  # noqa: BLE001  TVM raises errors of any kind; the run does without its reference
            logger.warning("The reference can't be measured anymore: %s", in_one_line(error))
            return None

    def _end_trials(self) -> NoReturn:
        while True:
            try:
                self._take(self._from_pool.get())
                if self._reference:
                    self._reference.hand_out_if_due()
            except Exception as error:  # noqa: BLE001  the supervisor must learn of any error
                traceback.print_exc()
                self._trials.fail(f"{type(error).__name__}: {error}")
            self._trials.changed.set()

    def _take(self, control: Measured | Slots) -> None:
        if isinstance(control, Slots):
            self._slots = control.wanted
            return
        # Who asks for its size meanwhile may get either: a pop is atomic.
        found = self._out.pop(control.id, None)
        is_again = self._reference is not None and self._reference.awaits(control.id)
        if found is None and not is_again:  # A second answer: the machine that was believed dead had measured it, too.
            return
        if control.synthetic != self._pool.synthetic:
            self._trials.fail(_mixed(control))
        if found:
            self._end_trial(control, *found)
        elif self._reference:
            self._reference.take(control)

    def _end_trial(self, control: Measured, task: int, candidate: Any, times: RoundTimes) -> None:
        outcome = _outcome(control)
        number = self._trials.end_trial(task, candidate, outcome, self._target, control.machine)
        if self._reference:
            self._reference.consider(number, outcome, lambda: self._sent(control.id, task, candidate))
        took = {"build_s": control.build_s or 0.0, "measure_s": control.measure_s or 0.0}
        self._trials.stopwatch.ended(times, **took)
        self._ended.put(Ended(task, candidate, outcome))

    def _sent(self, id_: str, task: int, candidate: Any, limit_s: float | None = None) -> Candidate:
        """TVM's candidate as machines are given it."""
        module = zstandard.ZstdCompressor().compress(tvm.ir.save_json(candidate.sch.mod).encode())
        cold_bytes = self._trials.cold_bytes(task)
        return Candidate(id_, task, module, described(candidate), limit_s, cold_bytes=cold_bytes)


def _outcome(measured: Measured) -> Timing | Failure:
    if measured.error_kind is None:
        return Timing(measured.run_secs, measured.short)
    return Failure(measured.error_kind, measured.error or "")


def _mixed(measured: Measured) -> str:
    if measured.synthetic:
        return f"The machine {measured.machine} has a fake device, but this run is to be measured."
    return f"The machine {measured.machine} measures, but this run is for fake devices."


def tune(contexts: Mapping[int, Any], cost_model: Any, search: Search, out: CandidatesOut, batch: int) -> None:
    """Tune until the budget is used up or no task may have more trials. `contexts` are TVM's, by task."""
    for context in contexts.values():
        context.pre_tuning(NO_LIMIT, batch, database=search.prior.database, cost_model=cost_model)
    trials = search.trials
    while True:
        trials.changed.clear()  # Before anything is looked at that may change.
        over = trials.searching_is_over
        if over and not trials.in_flight:
            return
        if over or not out.too_few:
            with trials.stopwatch.doing("wait"):
                trials.changed.wait()
            continue
        trials.report_phase("searching")  # Learning is as much work as what follows.
        _learn(out.take_ended(), contexts, cost_model, search)
        task = trials.next_task()
        if task is not None and (candidates := contexts[task].generate_measure_candidates()):
            out.hand_out(task, list(candidates), search.batch.times)
        trials.report_phase("measuring", task)


def _learn(ended: Iterator[Ended], contexts: Mapping[int, Any], cost_model: Any, search: Search) -> None:
    """Tell the search of results: first its database and the strategies, then the cost model."""
    by_task: dict[int, list[Ended]] = defaultdict(list)
    for one in ended:
        by_task[one.task].append(one)
    for task, ones in by_task.items():
        contexts[task].notify_runner_results([one.candidate for one in ones], [one.result() for one in ones])
        built = [one for one in ones if one.was_built]
        learn(search, cost_model, contexts[task], [one.candidate for one in built], [one.result() for one in built])
