"""How well a run's cost model ranked the candidates that it chose, judged by each batch before it learned from it."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import Avg, F, Max, Min
from typing_extensions import TypedDict

from tuning.models import Ranking, Run

PIECES = 150
LATEST = 10
"""Rankings that the sentence is about."""
FEWEST = 3
GOOD, WEAK = 0.5, 0.2
"""Mean correlations. By chance, that of ten batches of 16 is within 0.16 of zero nineteen times in twenty."""


class RankingDict(TypedDict):
    """A batch that the cost model judged before it learned from it, after `done` trials of the run.

    `correlation` is Spearman's, of predicted `scores` and measured speeds: 1 is the right order, 0 is chance; null if either were all equal.
    """

    id: int
    task: int
    done: int
    at_s: float
    correlation: float | None
    scores: list[float]
    latencies_s: list[float]


class Point(NamedTuple):
    """The mean correlation of rankings in a row, up to the last of them."""

    done: int
    at_s: float
    correlation: float


def rankings(run: Run, task: int | None, after: int, limit: int) -> list[RankingDict]:
    """The run's rankings, or those of a task, with a higher id, oldest first."""
    found = run.rankings.filter(pk__gt=after).select_related("task").defer("task__tensorir", "task__args")
    if task is not None:
        found = found.filter(task__index=task)
    return [_ranking(one) for one in found[:limit]]


def latest(run: Run, task: int, most: int) -> list[RankingDict]:
    """The task's latest rankings, newest first."""
    found = run.rankings.filter(task__index=task).select_related("task").defer("task__tensorir", "task__args")
    return [_ranking(one) for one in found.order_by("-pk")[:most]]


def _ranking(one: Ranking) -> RankingDict:
    return {
        "id": one.pk,
        "task": one.task.index,
        "done": one.done,
        "at_s": one.at_s,
        "correlation": one.correlation,
        "scores": one.scores,
        "latencies_s": one.latencies_s,
    }


def accuracy(run: Run) -> list[Point]:
    """How the correlation went; in a long run each point stands for several batches."""
    size = max(1, -(-run.trials_done // PIECES))
    pieces = run.rankings.filter(correlation__isnull=False).order_by().annotate(piece=F("done") / size).values("piece")
    rows = pieces.annotate(last=Max("done"), to_s=Max("at_s"), mean=Avg("correlation"), first=Min("pk"))
    return [Point(row["last"], row["to_s"], row["mean"]) for row in rows.order_by("first")]


def latest_mean(run: Run) -> tuple[float, int] | None:
    """The mean correlation of the latest rankings and their number; None if there are too few."""
    told = run.rankings.filter(correlation__isnull=False).order_by("-pk")
    latest = [correlation or 0.0 for correlation in told.values_list("correlation", flat=True)[:LATEST]]
    return (sum(latest) / len(latest), len(latest)) if len(latest) >= FEWEST else None


def sentence(run: Run) -> str:
    """What the correlations mean."""
    found = latest_mean(run)
    if found is None:
        return _why_not(run)
    mean, count = found
    what = f"{mean:.2f}".replace("-", "−") + f" on average over the last {count} rounds that could be judged"
    if mean >= GOOD:
        return f"The cost model ranks the candidates that it chooses well: {what}."
    if mean >= WEAK:
        return f"The cost model ranks the candidates that it chooses better than chance: {what}."
    return f"The cost model ranks the candidates that it chooses no better than chance: {what}."


def _why_not(run: Run) -> str:
    if run.options.get("cost_model") != "xgb":
        return "The run has no cost model that learns."
    return "The cost model couldn’t be judged often enough yet: it ranks once it has learned from 32 trials."
