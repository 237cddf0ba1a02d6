"""Choose the runs to compare from the ids in a URL."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db.models import Prefetch

from tuning.models import Run, Task
from tuning.validation import Invalid, natural
from tuning.wording import numbered

FEWEST, MOST = 2, 8
"""Runs in a comparison; 8 colors can be told apart by everybody."""


def usable(user: User | None, text: str) -> list[int]:
    """The ids in `text` of runs that the user sees, without duplicates, and at most as many as can be compared."""
    keys = [key for one in _named(text)[: 4 * MOST] if (key := natural(one)) is not None]
    existing = set(Run.objects.seen_by(user).filter(pk__in=keys).values_list("pk", flat=True))
    return [key for key in dict.fromkeys(keys) if key in existing][:MOST]


def runs_of(user: User | None, text: str, fewest: int = FEWEST, most: int = MOST) -> list[Run]:
    """The runs with the ids in a text such as `1,2,3`, in that order, with their tasks. Raises `Invalid` for `runs`."""
    keys = _keys(text, fewest, most)
    tasks = Prefetch("tasks", Task.objects.defer("tensorir").order_by("index"))
    seen = Run.objects.seen_by(user).select_related("network", "project", "created_by").prefetch_related(tasks)
    found = seen.in_bulk(keys)
    if missing := [key for key in keys if key not in found]:
        be, have = ("is", "It may have") if len(missing) == 1 else ("are", "They may have")
        raise Invalid({"runs": f"There {be} no {numbered(missing)}. {have} been deleted."})
    return [found[key] for key in keys]


def baseline_of(runs: Sequence[Run], key: int | None) -> Run:
    """The run that the others are compared with; by default, the first one. Raises `Invalid` for `baseline`."""
    for run in runs:
        if key in (None, run.pk):
            return run
    raise Invalid({"baseline": f"Run {key} is not one of the compared runs."})


def _named(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _key(text: str) -> int:
    if (key := natural(text)) is None:
        raise Invalid({"runs": f"“{text[:40]}” is not a run number. Write them as in runs=1,2."})
    return key


def _keys(text: str, fewest: int, most: int) -> list[int]:
    named = _named(text)
    if not fewest <= len(named) <= most:
        chosen = f", not {len(named)}" if named else ""
        raise Invalid({"runs": f"Choose {fewest} to {most} runs{chosen}."})
    keys = [_key(one) for one in named]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise Invalid({"runs": f"Run {twice} is listed twice."})
    return keys
