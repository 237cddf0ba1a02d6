"""Compare runs."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Query, Router

from dashboard.http.access import person
from tuning.reads.comparing import ComparisonDict, baseline_of, compare, runs_of

from . import queries
from .shapes import ERRORS

router = Router(tags=["runs"])


@router.get("compare", response={200: ComparisonDict, **ERRORS})
def compare_runs(request: HttpRequest, query: Query[queries.CompareQuery]) -> ComparisonDict:
    """Compare two to eight runs with a baseline: estimates, speeds, tasks, differing options, and caveats."""
    runs = runs_of(person(request), query.runs)
    return compare(runs, baseline_of(runs, query.baseline))
