"""What an engine is told at its start: the run, and how much of it is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tuning.engines.wire.engines import ENGINES
from tuning.engines.wire.legacy import RELAY, LegacyStart, relay_spec
from tuning.engines.wire.options.legacy import LegacyOptions
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Reference, Start
from tuning.host import devices, interpreters
from tuning.models import Run

from .course import rooflines
from .engine_process import AnyStart
from .pool.pooling import asked_of_engine
from .warm_start import bring_continued, warm_starts


def starting(run: Run, elapsed_s: float) -> tuple[AnyStart, Path, Path | None]:
    """The arguments of `EngineProcess` after the engine's name. Brings what it reads of the run that it continues.

    Raises `interpreters.NoInterpreter`, `devices.NotAllowed` and `OSError`.
    """
    if not ENGINES[run.engine].legacy:
        options = cast("Options", _options(run))
        pool = asked_of_engine(run)
        reference = None if run.synthetic else Reference(run.reference_trial)
        common, continued, known = _common(run, elapsed_s), bring_continued(run), rooflines.known(run)
        start = Start(**common, options=options, pool=pool, reference=reference, rooflines=known, continued=continued)
        return start, run.console_log, None
    interpreter = interpreters.path_of(run.interpreter)
    network = run.tuned_network.spec()
    older = LegacyStart(
        **_common(run, elapsed_s),
        engine=run.engine,
        relay=relay_spec(network) if network.name in RELAY and not network.file else None,
        options=cast("LegacyOptions", _options(run)),
    )
    return older, run.console_log, interpreter


def _common(run: Run, elapsed_s: float) -> dict[str, Any]:
    return {
        "run_id": run.pk,
        "network": run.tuned_network.spec(),
        "target": run.target,
        "trials_budget": run.trials_budget or 0,
        "trials_done": run.trials_done,
        "elapsed_s": elapsed_s,
        "work_dir": str(run.work_dir),
        "time_limit_s": run.time_limit_s,
        "remote": devices.remote_of(run.device),
        "expect_warm_start": warm_starts(run),
    }


def _options(run: Run) -> Any:
    return ENGINES[run.engine].options_of(run.options)
