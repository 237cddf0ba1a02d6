"""Which runs are compared: named by their numbers in an address."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Prefetch

from tuning.models import Run, Task
from tuning.validation import Invalid
from tuning.wording import numbered

FEWEST, MOST = 2, 8
"""Runs of a comparison: as many as there are colours that everybody tells apart."""
LONGEST_NUMBER = 18
"""Digits of a key that every database can hold."""


def usable(text: str) -> list[int]:
    """Of what `text` names, the runs that there are, each once and no more than can be compared."""
    keys = dict.fromkeys(int(one) for one in _named(text)[: 4 * MOST] if _is_number(one))
    there = set(Run.objects.filter(pk__in=keys).values_list("pk", flat=True))
    return [key for key in keys if key in there][:MOST]


def runs_of(text: str) -> list[Run]:
    """The runs that `1,2,3` names, in that order, with their tasks. Raises `Invalid` for `runs`, saying what is wrong."""
    keys = _keys(text)
    tasks = Prefetch("tasks", Task.objects.defer("tensorir").order_by("index"))
    found = Run.objects.select_related("network", "created_by").prefetch_related(tasks).in_bulk(keys)
    if lost := [key for key in keys if key not in found]:
        there = "is" if len(lost) == 1 else "are"
        raise Invalid({"runs": f"There {there} no {numbered(lost)}: deleted, or never there."})
    return [found[key] for key in keys]


def baseline_of(runs: Sequence[Run], key: int | None) -> Run:
    """The run that the others are compared with; the first unless another is chosen. Raises `Invalid` for `baseline`."""
    for run in runs:
        if key in (None, run.pk):
            return run
    raise Invalid({"baseline": f"Run {key} is not among the runs that are compared."})


def _named(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER


def _keys(text: str) -> list[int]:
    named = _named(text)
    if not FEWEST <= len(named) <= MOST:
        chose = f": these are {len(named)}" if len(named) > 1 else ": this is one" if named else ""
        raise Invalid({"runs": f"Choose {FEWEST} to {MOST} runs{chose}."})
    if odd := next((one for one in named if not _is_number(one)), None):
        raise Invalid({"runs": f"“{odd[:40]}” is no run's number. Name them as in runs=1,2."})
    keys = [int(one) for one in named]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise Invalid({"runs": f"Run {twice} is named twice."})
    return keys
