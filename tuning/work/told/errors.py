"""Why a trial of somebody else's log failed."""

from __future__ import annotations

from tuning.logs import errors, neutral

UNTOLD = "No error text was recorded."


def error_text(engine: str, trial: neutral.Trial) -> str:
    """Of a failed trial: as the log has it, or what TVM means by the number that it has instead."""
    if trial.error:
        return trial.error
    if trial.error_no is None:
        meaning = errors.FAILED.meaning if trial.error_kind == errors.FAILED.kind else errors.NO_LATENCY.meaning
        return f"{meaning} {UNTOLD}"
    error = errors.named(engine, trial.error_no, trial.timestamp)
    return f"{error.name}: {error.meaning} {UNTOLD}"
