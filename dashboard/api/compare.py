"""Compare runs."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Query, Router, Status

from dashboard.accounts import CHANGE
from dashboard.http.access import find, person, require
from tuning.actions.comparing import side_by_side
from tuning.models import SideBySide, SideBySideDict
from tuning.reads.comparing import ComparisonDict, baseline_of, compare, runs_of

from . import bodies, queries
from .auth import needs
from .shapes import ERRORS

router = Router(tags=["runs"])


@router.get("compare", response={200: ComparisonDict, **ERRORS})
def compare_runs(request: HttpRequest, query: Query[queries.CompareQuery]) -> ComparisonDict:
    """Compare two to eight runs with a baseline: estimates, speeds, tasks, differing options, and caveats."""
    runs = runs_of(person(request), query.runs)
    return compare(runs, baseline_of(runs, query.baseline))


@router.post(
    "comparisons", response={201: SideBySideDict, **ERRORS}, auth=needs(CHANGE), openapi_extra=bodies.SIDE_BY_SIDE
)
def measure_side_by_side(request: HttpRequest) -> Status[SideBySideDict]:
    """Queue a measurement: the best records of each run, in turn, in one job on one device. Ask for its status to follow it."""
    runs = side_by_side.runs_in(bodies.json_object(request), person(request))
    require(request, CHANGE, *runs)
    return Status(201, side_by_side.measure(runs, person(request)).to_dict())


@router.get("comparisons/{number:comparison_id}", response={200: SideBySideDict, **ERRORS})
def get_side_by_side(request: HttpRequest, comparison_id: int) -> SideBySideDict:
    """The measurement, with the latencies of each round once it has finished."""
    return _found(request, comparison_id).to_dict()


@router.post("comparisons/{number:comparison_id}/cancel", response={200: SideBySideDict, **ERRORS}, auth=needs(CHANGE))
def cancel_side_by_side(request: HttpRequest, comparison_id: int) -> SideBySideDict:
    """Cancel the measurement. Nothing of it is kept."""
    row = _found(request, comparison_id)
    require(request, CHANGE, *row.runs.all())
    side_by_side.cancel(row)
    return _found(request, comparison_id).to_dict()


def _found(request: HttpRequest, key: int) -> SideBySide:
    return find(request, SideBySide.objects.kept().select_related("machine", "created_by"), pk=key)
