"""What runs and tasks are called in a comparison, and in which order its tasks are shown."""

from __future__ import annotations

from typing import Any

from tuning.reads.comparing import ComparedRunDict, ComparedTaskDict, ComparisonDict

from .view import View

LONGEST = 30


def baseline_of(comparison: ComparisonDict) -> ComparedRunDict:
    """The run that the others are compared with."""
    return next(run for run in comparison["runs"] if run["run"]["id"] == comparison["baseline"])


def title(run: ComparedRunDict) -> str:
    """A run's number and name, shortened for a legend."""
    simulated = ", simulated" if run["run"]["simulator"] else ""
    return f"#{run['run']['id']} {_shortened(run['run']['name'])}{simulated}"


def label(number: str, name: str) -> str:
    """A task's number and name, shortened for an axis."""
    return f"{number} {_shortened(name)}"


def categories(title: str, names: list[str]) -> dict[str, Any]:
    """An axis with these names, in this order."""
    return {
        "title": {"text": title},
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "tickfont": {"size": 11},
    }


def ordered(comparison: ComparisonDict, view: View) -> list[ComparedTaskDict]:
    """The tasks, sorted by their contribution to the total or by their largest difference."""
    if view.sort == "total":
        return comparison["tasks"]
    return sorted(comparison["tasks"], key=_largest_difference, reverse=True)


def number(comparison: ComparisonDict, task: ComparedTaskDict) -> tuple[int, str]:
    """A task's number in the baseline, or in the first run that has it, and as it is shown.

    The latter is `3 of #7`, since the baseline's 3 is another task.
    """
    keys = [run["run"]["id"] for run in comparison["runs"]]
    numbers = {key: cell["task"] for key, cell in zip(keys, task["cells"], strict=True) if cell}
    base = comparison["baseline"]
    if base in numbers:
        return numbers[base], str(numbers[base])
    key, first = next(iter(numbers.items()))
    return first, f"{first} of #{key}"


def _largest_difference(task: ComparedTaskDict) -> float:
    return max((abs(cell["difference_s"] or 0.0) for cell in task["cells"] if cell), default=0.0)


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
