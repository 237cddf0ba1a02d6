"""A measurement side by side in words."""

from __future__ import annotations

from tuning.models import SideBySide
from tuning.reads.comparing import BesideDict
from tuning.wording import numbered

DOING = {
    "loading": "loading TVM",
    "building": "building the best records",
    "measuring": "measuring them in turn",
}
"""By the phase of its process."""


def doing(row: SideBySide) -> str:
    """One line below the progress bar."""
    if row.status == SideBySide.Status.QUEUED:
        return f"waiting for {row.device}"
    if row.status == SideBySide.Status.CANCELLING:
        return "cancelling"
    return DOING.get(row.phase or "", "starting")


def how(found: BesideDict) -> str:
    """Where it was measured, and what."""
    where = f"{found['machine']} ({found['device']})" if found["machine"] else found["device"]
    tasks = "1 task" if found["tasks"] == 1 else f"{found['tasks']:,} tasks"
    return f"on {where}: {found['rounds']} rounds of {tasks}, in each of which the runs took turns"


def remarks(found: BesideDict) -> list[str]:
    """What keeps it from being the last word."""
    texts = []
    if found["disturbed"]:
        used = f"{found['others_cores']:.1f} of {found['cpus']} processors"
        texts.append(f"Other processes used {used} meanwhile: measure again once they have ended.")
    if outdated := found["outdated"]:
        which = numbered(outdated)
        have = "has" if len(outdated) == 1 else "have"
        texts.append(f"{which[0].upper()}{which[1:]} {have} better records since: measure again to compare these.")
    texts += [
        f"The record of trial {one['trial']} of run {one['run']} couldn’t be measured, so its task is left out: {one['error']}"
        for one in found["failed"]
    ]
    return texts
