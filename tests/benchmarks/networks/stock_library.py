"""Measures stock TVM's library in turn with ours: `python -m tests.benchmarks.networks.stock_library` answers `Beside` with `InTurnWithStock`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.benchmarks.engine.threads import use_cores
from tuning.engines.oneshot import serving

from .library import OfLibrary, seconds_of

ROUNDS = 7


class Beside(OfLibrary, frozen=True, kw_only=True):
    records: list[str]
    """As in `TrialMeasured.record`, stock TVM's best of each task."""


class InTurnWithStock(msgspec.Struct, tag="with_stock", frozen=True):
    ours: list[float]
    """Seconds of one inference in each round."""
    stock: list[float]
    functions: int
    scheduled: int
    """Of the functions in stock TVM's library, those that it had a record for."""


def main() -> None:
    serving.serve(Beside, _answer, "Stock TVM's library can't be measured")


def _answer(question: Beside, pipe: serving.Pipe) -> None:
    use_cores(question.target)
    with TemporaryDirectory() as folder:
        path = Path(folder, "stock.so")
        functions, scheduled = _built(question, path)
        ours, stock = (seconds_of(str(each), question.inputs) for each in (question.library, path))
        rounds = [(ours(), stock()) for _ in range(ROUNDS)]
    pipe.send(InTurnWithStock([one for one, _ in rounds], [other for _, other in rounds], functions, scheduled))


def _built(question: Beside, path: Path) -> tuple[int, int]:
    """Build the library as TVM does by itself; return how many functions it has, and how many are scheduled."""
    from tvm import relax
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.oneshot.applying import applied

    target = Target(question.target)
    found = applied(extraction.legalized(networks.build(question.network).mod, target), target, question.records)
    relax.build(found.mod, target).export_library(str(path))
    return len(found.tuned) + len(found.untuned), len(found.tuned)


if __name__ == "__main__":
    main()
