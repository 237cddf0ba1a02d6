"""Builds records and measures them in turn: `python -m tuning.engines.oneshot.side_by_side` answers `MeasureInTurn`.

They are built and measured as a run's candidates are, in processes of their own: one that crashes costs only itself.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tuning.engines.measuring.outcomes import Failure, Runner
from tuning.engines.meta_schedule.trust.built import Built
from tuning.engines.meta_schedule.trust.turns import rounds
from tuning.engines.wire import versions
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.side_by_side.messages import LEAST_ROUNDS, MOST_ROUNDS, Again, Doing, InTurn, MeasureInTurn
from tuning.engines.wire.target_fields import TargetRefused

from . import serving

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext


def measure(question: MeasureInTurn, pipe: serving.Pipe) -> InTurn:
    """Raises `Refused` if this machine can't build for the target, or run it."""
    _tell(pipe, Doing("loading"))
    context = _fork_server(question)
    target = _target(question)
    built: dict[int, Built] = {}
    found: dict[int, Again] = {}
    _tell(pipe, Doing("building", 0.0))
    for index, outcome in _built(question, context, target):
        if isinstance(outcome, Failure):
            found[index] = Again([], outcome.text)
        else:
            built[index] = outcome
        _tell(pipe, Doing("building", (len(built) + len(found)) / len(question.records)))
    runner = _runner(question, context, target)
    _tell(pipe, Doing("measuring", 0.0))
    found |= in_rounds(built, runner, question.seconds, lambda share: _tell(pipe, Doing("measuring", share)))
    runner.close()
    return InTurn([found[index] for index in range(len(question.records))], versions.in_use())


def in_rounds(
    built: Mapping[int, Built], runner: Runner, seconds: float, on_progress: Callable[[float], None]
) -> dict[int, Again]:
    """Measure all of it in rounds, for so many seconds and at least `LEAST_ROUNDS`. Progress is from 0 to 1."""
    latencies: dict[int, list[float]] = {index: [] for index in built}
    failed: dict[int, Again] = {}
    began = time.monotonic()
    for done, outcomes in enumerate(rounds(built, runner), start=1):
        for index, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                failed[index] = Again([], outcome.text)
            else:
                latencies[index].append(fmean(outcome.run_secs))
        wanted = _rounds_in(seconds, (time.monotonic() - began) / done)
        on_progress(min(1.0, done / wanted))
        if done >= wanted:
            break
    return {index: Again(measured) for index, measured in latencies.items()} | failed


def _rounds_in(seconds: float, round_s: float) -> int:
    """How many rounds there are if each takes so long."""
    return max(LEAST_ROUNDS, int(min(MOST_ROUNDS, seconds / max(round_s, 1e-9))))


def _fork_server(question: MeasureInTurn) -> ForkServerContext:
    """Load TVM, and fork the workers' server before a thread starts or a GPU is touched."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # It starts a thread per core, and nothing here uses it.
    import tvm  # noqa: F401  forked workers have it loaded
    from tvm.s_tir import meta_schedule  # noqa: F401

    from tuning.engines.forking import fork_server
    from tuning.engines.targets import cuda, intrinsics

    intrinsics.load_with_workers(intrinsics.kind_for(str(question.target.get("kind")), question.target))
    cuda.choose_compiler()
    return fork_server.start_fork_server(["tvm"])


def _target(question: MeasureInTurn) -> Any:
    from tvm.target import Target

    from tuning.engines.targets.resolving import resolve

    try:
        return Target(resolve(question.target).target)
    except TargetRefused as refused:
        raise Refused(f"This machine can't measure for the target. {refused}") from refused


def _built(question: MeasureInTurn, context: ForkServerContext, target: Any) -> Any:
    """Each record's index with what was built, or why nothing was."""
    from tuning.engines.measuring.local import LocalBuilder
    from tuning.engines.meta_schedule.trust.rebuilding import tried
    from tuning.engines.targets.here import local_artifact_suffix
    from tuning.engines.targets.resolving import cores

    builder = LocalBuilder(
        context,
        Path(tempfile.gettempdir(), "artifacts"),
        max_workers=cores(),
        timeout_s=question.options.build_timeout_s,
        suffix=local_artifact_suffix(target),
    )
    cold_bytes = question.cold_bytes or [0] * len(question.records)
    return tried(question.records, cold_bytes, builder, target)


def _runner(question: MeasureInTurn, context: ForkServerContext, target: Any) -> Any:
    from tuning.engines.measuring.local import LocalRunner
    from tuning.engines.targets.here import threads_to_measure

    options = question.options
    evaluator = (options.number, options.repeat, options.min_repeat_ms)
    threads = threads_to_measure(target)
    return LocalRunner(
        context,
        config=evaluator,
        timeout_s=options.run_timeout_s,
        threads=threads,
    )


def _tell(pipe: serving.Pipe, doing: Doing) -> None:
    """Also as a step, which is quoted if the process dies."""
    pipe.step(doing.phase.capitalize())
    pipe.send(doing)


def _answer(question: MeasureInTurn, pipe: serving.Pipe) -> None:
    pipe.send(measure(question, pipe))


def main() -> None:
    serving.serve(MeasureInTurn, _answer, "TVM can't measure them")


if __name__ == "__main__":
    main()
