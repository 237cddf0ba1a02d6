"""What room a run's page keeps for its verdict, which it asks for later: nothing below should move when that arrives."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from django.contrib.auth.models import User

from tuning.models import Run
from tuning.reads.gaining import FEWEST, any_alike, is_foreseeable, roofline_of, will_be_foreseeable
from tuning.wording import SPACE

OUTLOOK = (
    f"5 of 18 tasks hold 60{SPACE}% of what can still be gained. 200 more trials are expected to bring 1 to 28{SPACE}%, "
    f"within the run’s noise of ±{SPACE}28{SPACE}%."
)
HELD = f"Tasks 3, 11 and 12 hold 60{SPACE}% of what is left to the roofline."
EQUALLED = (
    "Other runs are faster in 12 tasks, most of all in task 11: equalling them would gain 3.000 ms (30.0 % of the "
    "estimate)."
)
ROOF = "At the roofline of some-machine the tasks would take 10.31 ms, 54.2 % less."
TUNE, EXTEND = "Tune just these", "Extend by 200 trials"


class Permissions(Protocol):
    """What somebody may do with a run, by permission."""

    def __getitem__(self, name: str) -> bool: ...


class Outline(NamedTuple):
    """Sentences and labels of buttons that are about as long as those to come."""

    sentences: list[str]
    acts: list[str]


def outline(run: Run, user: User | None, may: Permissions) -> Outline | None:
    """The outline of the run's verdict; None if there won't be one, or if that can't be told without making it."""
    goes_on = run.status not in Run.ENDED
    if run.synthetic or run.simulator or not (goes_on or run.tasks_measured):
        return None
    foreseeable = will_be_foreseeable(run) if goes_on else is_foreseeable(run)
    estimated = goes_on or run.estimated_latency_s is not None
    further = [EQUALLED] * any_alike(run, user) + [ROOF] * (estimated and roofline_of(run) is not None)
    if not foreseeable and not further:
        return None
    return Outline([OUTLOOK if foreseeable else HELD, *further], _acts(run, may))


def nothing(run: Run) -> str:
    """What the verdict says if there is nothing to say, although there is room for it."""
    if run.status not in Run.ENDED:
        return f"Told once each task has a latency, from {FEWEST} trials on."
    return "Not known: there is no forecast for such a run, and no other run that you see has measured its tasks."


def _acts(run: Run, may: Permissions) -> list[str]:
    if not run.can_tune:
        return []
    launches, changes = may["add_run"], may["change_run"]
    return [TUNE] * launches + [EXTEND] * (changes and run.status in Run.ENDED)
