"""Stock TVM tunes a network with as many trials in as many minutes, and its library is measured in turn with ours."""

from __future__ import annotations

import time

import msgspec

from tests.benchmarks.engine.sides import CONSOLE, GENEROUS, HOUR, Broken, stock_events
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Finished, TrialMeasured
from tuning.host import sandbox
from tuning.models import Compilation, Run

from .library import about
from .plan import Tuning
from .stock_library import Beside, InTurnWithStock


class Stock(msgspec.Struct, frozen=True):
    """What stock TVM made of the budget."""

    trials: int
    """Those that ended in time."""
    tuned_for_s: float
    """Until it reported a trial that ended later, or all of them. It reports nothing of its first pass over the tasks before that is over."""
    measured: InTurnWithStock | None
    """None if no trial was valid."""


def beside(run: Run, compilation: Compilation, tuning: Tuning) -> Stock:
    """Tune the run's network with stock TVM. Raises `Broken`."""
    began = time.monotonic()
    trials, best = _tuned(run, tuning)
    took_s = time.monotonic() - began
    if not best:
        return Stock(trials, took_s, None)
    question = Beside(
        records=list(best.values()),
        **about(run, compilation),
        **GENEROUS,
    )
    try:
        found = sandbox.ask_once("tests.benchmarks.networks.stock_library", question, InTurnWithStock, limits=HOUR)
    except Refused as error:
        raise Broken(f"Stock TVM's library of {tuning.workload.name} couldn't be measured: {error}") from error
    return Stock(trials, took_s, found)


def _tuned(run: Run, tuning: Tuning) -> tuple[int, dict[int, str]]:
    """How many trials ended within the tuning's time, and the best record of each task. Raises `Broken` if stock TVM fails."""
    folder = run.work_dir / "stock"
    options = Options(trials_per_batch=16, seed=tuning.seed, build_timeout_s=300.0)
    trials, best = 0, dict[int, str]()
    for event in stock_events(run.tuned_network.spec(), options, tuning.trials, folder):
        if isinstance(event, Finished):
            return trials, best
        if isinstance(event, TrialMeasured):
            if event.at_s is not None and event.at_s > 60 * tuning.minutes:
                return trials, best
            trials += 1
            if event.record:
                best[event.task] = event.record
    raise Broken(f"Stock TVM failed after {trials} of {tuning.trials} trials. Its log is {folder / CONSOLE}.")
