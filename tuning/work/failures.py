"""Why a run failed, for users: the first line says it, more lines may follow."""

from __future__ import annotations

from tuning.engines.wire.errors import last_line
from tuning.engines.wire.signals import signal_name
from tuning.models import Run
from tuning.reads.console import last_lines

TAIL_LINES = 12
NO_CANDIDATE = "No trial was measured: the engine found no candidate for any task."
NO_TIME = "No trial was measured within the time limit. Extend the run to give it more time."


def nothing_valid(run: Run, why: str | None = None) -> str:
    """The reason if nobody measures any more, but no trial has a latency. `why` it ended is the engine's reason."""
    if not run.trials_done and why == "time_limit":
        return NO_TIME
    if not run.trials_done:
        return NO_CANDIDATE if run.is_ours else "No trial was measured."
    said = run.errors.first()
    why = f" Most often ({said.count:,}×): {last_line(said.text, 300) or 'not recorded'}" if said else ""
    return f"None of the {run.trials_done:,} trials was valid.{why}"


def death_notice(run: Run, exit_status: int | None) -> str:
    """The reason if the engine gave none. `exit_status` is negative if a signal killed it, None if it didn't exit in time."""
    if exit_status is None:
        how = "The engine closed its event pipe, and its exit status isn't known."
    elif exit_status < 0:
        how = f"The engine was killed by {signal_name(-exit_status)}."
    else:
        how = f"The engine ended with exit status {exit_status} and gave no reason."
    tail = last_lines(run, TAIL_LINES)
    return f"{how}\nIts last lines:\n{tail}" if tail else how
