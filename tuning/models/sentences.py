"""A run in words: what it is doing or why it ended, what its estimate covers, where it began."""

from __future__ import annotations

from collections.abc import Sequence

from tuning import wording
from tuning.noise import combined, difference

from .shapes import BegunDict, RunFacts, RunWords

DOING = {
    "loading": "loading TVM and the network",
    "extracting": "extracting tasks",
    "roofline": "measuring what the machine does at best",
    "design_spaces": "generating design spaces",
    "searching": "searching for candidates",
    "building": "building candidates",
    "measuring": "measuring candidates",
    "confirming": "confirming the best records",
    "quiet": "no new trial for ten minutes",
}

EARLY = {"time_limit": "time limit reached", "plateau": "plateau reached", "exhausted": "nothing left to try"}
"""Short texts about why a run ended before its budget was spent."""


STOPPING = {
    "launched": "stopping after the trial being measured",
    "watched": "no longer watched",
    "streamed": "stopping after the batch that its script measures",
}
MOST_NAMED = 6
"""Most machines, or tasks, that an alert names."""
LEAST_SLOWER, LEAST_UNSURE = 0.1, 0.5
"""How much slower than in another run a record must be to be told of: by so much more than noise explains, or in all if noise isn't known."""
GOES_ON = ("queued", "running", "stopping")
READING = {"imported": "reading its log", "watched": "reading its file"}


def words(run: RunFacts) -> RunWords:
    """What pages say about the run."""
    return {
        "phase": _phase(run),
        "coverage": _coverage(run),
        "unknown": unknown(
            run["tasks_measured"], run["tasks_chosen"], run["tasks_total"], goes_on=run["status"] in GOES_ON
        ),
        "warm_start": _warm_start(run),
        "confirmed": _confirmed(run),
        "noise": _noise(run),
        "noisy": _noisy(run),
        "remaining": _remaining(run),
    }


def disturbance(machines: Sequence[str]) -> str:
    """An alert that others use too much of these machines, one at least."""
    whose = f"{len(machines):,} machines" if len(machines) > MOST_NAMED else wording.listed(machines)
    drain = "the machine" if len(machines) == 1 else "the machines"
    return (
        f"Other processes use more than a quarter of the CPU of {whose}, so measurements there are noisy. End them, or drain "
        f"{drain} until they have ended."
    )


def drifted(change: float, measurers: str = "machine", *, live: bool) -> str:
    """An alert that the run's reference takes longer or shorter than it did at first. `measurers`: `machine`, `machines` or `devices`."""
    how = f"{wording.percent(abs(change))} {'slower' if change > 0 else 'faster'}"
    has = "has" if measurers == "machine" else "have"
    when = f"{has} become {how} since the run began" if live else f"became {how} while the run was tuned"
    return (
        f"The {measurers} {when}: one and the same record, measured again from time to time, takes "
        f"{'longer' if change > 0 else 'less time'} than at first. Latencies of early and late trials can’t be compared."
    )


def slower_than_known(begun: Sequence[BegunDict], noise: float | None, *, live: bool) -> str:
    """An alert that records of other runs are slower here than there, by more than this run's `noise` and theirs explain; empty if none is."""
    slower = [one for one in begun if one["measured_s"] is not None and _slowdown(one) > _explained(one, noise)]
    if not slower:
        return ""
    worst, several = max(slower, key=_slowdown), len(slower) > 1
    named = f"Task{'s' if several else ''} {wording.listed([one['task'] for one in slower])}"
    tasks = named if len(slower) <= MOST_NAMED else f"{len(slower):,} tasks"
    runs = wording.numbered(sorted({one["run"] for one in slower}))
    figures = f"{wording.latency(worst['measured_s'] or 0.0)} instead of {wording.latency(worst['latency_s'])}"
    of = f" for task {worst['task']}" if several else ""
    be = "is" if live else "was"
    return f"{tasks} measured slower here than in {runs}: {figures}{of}. This machine {be} busy or differs."


def _slowdown(one: BegunDict) -> float:
    return difference(one["measured_s"] or 0.0, one["latency_s"]).change


def _explained(one: BegunDict, noise: float | None) -> float:
    """How much slower a record may be measured than before without a word."""
    both = combined(noise, one["noise"])
    return LEAST_UNSURE if both is None else both + LEAST_SLOWER


def _phase(run: RunFacts) -> str:
    origin = run["origin"]
    if run["status"] == "queued":
        return f"queued: {run['waits'] or 'waiting for a worker'}"
    if run["status"] == "stopping":
        return STOPPING.get(origin, "stopping")
    if run["status"] == "finished":
        return _ended(run)
    if run["status"] != "running":
        return ""
    if origin in READING and run["phase"] != "quiet":
        return READING[origin]
    doing = DOING.get(run["phase"] or "", run["phase"] or "starting")
    return doing if run["phase_task"] is None else f"{doing} of task {run['phase_task']}"


def _remaining(run: RunFacts) -> str:
    """Why it isn't said how long the run will go on; empty if it is."""
    if run["status"] not in GOES_ON:
        return "the run has ended"
    if run["status"] == "stopping":
        return "it is being stopped"
    if run["trials_budget"] is None:
        return "it has no budget"
    if run["elapsed_s"] is None:
        return "times aren’t recorded"
    return "" if run["remaining"] else "not known yet"


def _ended(run: RunFacts) -> str:
    reason = run["finish_reason"]
    if reason == "budget":
        return "finished: trial budget used up"
    if reason == "time_limit":
        return f"finished early: time limit of {wording.duration(run['time_limit_s'] or 0)} reached"
    if reason == "plateau":
        return _plateau(**run["options"])
    return "finished early: nothing left to try" if reason == "exhausted" else ""


def _plateau(plateau_percent: float | None = None, plateau_trials: int | None = None, **_others: object) -> str:
    if plateau_percent is None:
        return f"finished early: {EARLY['plateau']}"
    return f"finished early: no task improved by {plateau_percent:g} % in {plateau_trials:,} trials"


def _coverage(run: RunFacts) -> str:
    measured, chosen, total = run["tasks_measured"], run["tasks_chosen"], run["tasks_total"]
    if not total:
        return "tasks not extracted yet" if run["origin"] == "launched" else "no tasks yet"
    lacking = _lacking(measured, chosen, goes_on=run["status"] in GOES_ON)
    if chosen < total:
        return f"covers the chosen {chosen:,} of {total:,} tasks" + (f": {lacking}" if lacking else "")
    unweighted = "" if run["estimated_latency_s"] is not None else "; their weights aren't recorded"
    spare = run["tasks_spare"]
    twice = f", {spare:,} of them by two algorithms" if spare else ""
    return lacking or f"{measured:,} of {total:,} tasks measured{twice}{unweighted}"


def unknown(measured: int, chosen: int, total: int, *, goes_on: bool) -> str:
    """What stands in place of the estimate while tasks lack a latency; empty if none does, or if tasks aren't known."""
    lacking = _lacking(measured, chosen, goes_on=goes_on)
    return f"unknown: {lacking}" if total and lacking else ""


def _lacking(measured: int, chosen: int, *, goes_on: bool) -> str:
    if measured >= chosen:
        return ""
    return f"{chosen - measured:,} of {chosen:,} tasks not measured{' yet' if goes_on else ''}"


def _confirmed(run: RunFacts) -> str:
    """How many of its tasks are confirmed; empty for none, and for all that count, of which there is a confirmed latency."""
    confirmed, chosen = run["tasks_confirmed"], run["tasks_chosen"]
    is_whole = run["confirmed_latency_s"] is not None
    return f"{confirmed:,} of {chosen:,} tasks confirmed" if 0 < confirmed < chosen and not is_whole else ""


def _noise(run: RunFacts) -> str:
    """How far apart the estimate would be if all were measured again."""
    noise, latency_s = run["noise"], run["estimated_latency_s"]
    return "" if noise is None or latency_s is None else wording.plus_minus(noise)


def _noisy(run: RunFacts) -> str:
    """Of a run on many machines, others need have used only the one that measured the trial."""
    count = run["trials_noisy"]
    was = "trial was" if count == 1 else "trials were"
    return f"{count:,} {was} measured while other processes used the machine" if count else ""


def _warm_start(run: RunFacts) -> str:
    warm, adapted, of = run["warm_start"], run["adapted"], f"of {run['tasks_chosen']:,} tasks"
    starts = []
    if warm:
        starts.append(f"{len(warm['tasks']):,} {of} start from records of {wording.numbered(warm['runs'])}")
    if adapted:
        subject = f"{len(adapted['tasks']):,}{'' if warm else f' {of} start'}"
        starts.append(f"{subject} from schedules for other shapes, of {wording.numbered(adapted['runs'])}")
    return ", ".join(starts)
