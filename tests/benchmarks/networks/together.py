"""Measures a library and the records in it in turn: `python -m tests.benchmarks.networks.together` answers `InTurn` with `Together`.

What others do on the same hardware changes a machine's speed within minutes, by half and more, even of a virtual one that seems idle. So how
near an estimate is to its network can only be told from what was measured at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.benchmarks.engine.threads import use_cores
from tuning.engines.oneshot import serving

from .library import OfLibrary, seconds_of

ROUNDS = 15
SHORTLY_MS = 20
"""How long a record is measured in a round, about."""


class Part(msgspec.Struct, frozen=True):
    record: str
    """As in `TrialMeasured.record`."""
    calls: int
    """How often an inference calls its function."""
    cold_bytes: int
    """As in `AnyTaskInfo`."""


class InTurn(OfLibrary, frozen=True, kw_only=True):
    parts: list[Part]


class Together(msgspec.Struct, tag="together", frozen=True):
    """Seconds of one inference in each round."""

    alone: list[float]
    """The sum over the records, each measured as its trial was."""
    library: list[float]


def main() -> None:
    serving.serve(InTurn, _answer, "They can't be measured")


def _answer(question: InTurn, pipe: serving.Pipe) -> None:
    use_cores(question.target)
    with TemporaryDirectory() as folder:
        measures = [_alone(part, question, Path(folder, f"{nth}.so")) for nth, part in enumerate(question.parts)]
        library = seconds_of(question.library, question.inputs)
        alone, whole = [], []
        for _ in range(ROUNDS):
            alone.append(sum(part.calls * measure() for part, measure in zip(question.parts, measures, strict=True)))
            whole.append(library())
    pipe.send(Together(alone, whole))


def _alone(part: Part, question: InTurn, path: Path) -> Callable[[], float]:
    import tvm
    from tvm.s_tir.meta_schedule.runner import EvaluatorConfig

    from tuning.engines.measuring import workers
    from tuning.engines.measuring.arguments import RANDOM_FILL, allocated, described
    from tuning.engines.measuring.cold import Evaluator
    from tuning.engines.meta_schedule.trust.rebuilding import candidate_of

    candidate = candidate_of(part.record)
    workers.build(tvm.ir.save_json(candidate.sch.mod), msgspec.json.encode(question.target).decode(), str(path))
    given = described(candidate)
    (tensors,) = allocated(tvm.get_global_func(RANDOM_FILL), tvm.cpu(), given)
    pairs = [(kind, tensor) for (kind, *_), tensor in zip(given, tensors, strict=True)]
    evaluator = Evaluator(tvm.runtime.load_module(str(path)), tvm.cpu(), pairs, part.cold_bytes)
    config = EvaluatorConfig(number=3, repeat=1, min_repeat_ms=SHORTLY_MS)
    return lambda: evaluator.run_secs(config)[0]


if __name__ == "__main__":
    main()
