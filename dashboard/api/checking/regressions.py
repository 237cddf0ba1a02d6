"""Regression checks and what they have found."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Field, Query, Router, Status
from typing_extensions import TypedDict

from dashboard.accounts import LAUNCH
from dashboard.api import bodies
from dashboard.api.auth import needs
from dashboard.api.queries import Query as Parameters
from dashboard.api.shapes import ERRORS
from dashboard.http.access import find, person
from tuning.actions.checking import checks
from tuning.models import CheckDict, CheckResult, CheckResultDict, RegressionCheck

router = Router(tags=["regression checks"])
OF_CHECK = "regression-checks/{number:check_id}"


class CheckList(TypedDict):
    """By name."""

    items: list[CheckDict]


class ResultPage(TypedDict):
    """Newest first. `next` goes into `before` for the next page, if there is one."""

    items: list[CheckResultDict]
    next: int | None


class ResultQuery(Parameters):
    before: int | None = Field(None, ge=0, le=2**63 - 1, description="`next` of the previous page.")
    limit: int = Field(100, ge=1, le=1000)


@router.get("regression-checks", response={200: CheckList, **ERRORS})
def list_checks(request: HttpRequest) -> CheckList:
    """The checks of your projects."""
    shown = RegressionCheck.objects.shown().seen_by(person(request))
    return {"items": [check.to_dict() for check in shown]}


@router.post(
    "regression-checks",
    response={201: CheckDict, **ERRORS},
    auth=needs(LAUNCH),
    openapi_extra=bodies.REGRESSION_CHECK,
)
def create_check(request: HttpRequest) -> Status[CheckDict]:
    """Have the network of a run measured for its target again and again."""
    made = checks.create(bodies.json_object(request), person(request))
    return Status(201, _check(request, made.pk).to_dict())


@router.get(OF_CHECK, response={200: CheckDict, **ERRORS})
def get_check(request: HttpRequest, check_id: int) -> CheckDict:
    """A check with its latest result."""
    return _check(request, check_id).to_dict()


@router.patch(
    OF_CHECK, response={200: CheckDict, **ERRORS}, auth=needs(LAUNCH), openapi_extra=bodies.REGRESSION_CHECK_CHANGE
)
def change_check(request: HttpRequest, check_id: int) -> CheckDict:
    """Change the check, pause or resume it, or pin a result as the base of all later ones."""
    checks.change(_check(request, check_id, LAUNCH), bodies.json_object(request))
    return _check(request, check_id).to_dict()


@router.delete(OF_CHECK, response={204: None, **ERRORS}, auth=needs(LAUNCH))
def delete_check(request: HttpRequest, check_id: int) -> Status[None]:
    """Delete the check with its results. Runs and libraries that it has made stay."""
    checks.delete(_check(request, check_id, LAUNCH))
    return Status(204, None)


@router.post(f"{OF_CHECK}/results", response={202: CheckResultDict, **ERRORS}, auth=needs(LAUNCH))
def do_check(request: HttpRequest, check_id: int) -> Status[CheckResultDict]:
    """Do the check now. Ask for its results to follow it; 409 if one goes on."""
    made = checks.do_now(_check(request, check_id, LAUNCH), person(request))
    return Status(202, _result(request, made.pk))


@router.get(f"{OF_CHECK}/results", response={200: ResultPage, **ERRORS})
def list_results(request: HttpRequest, check_id: int, query: Query[ResultQuery]) -> ResultPage:
    """What the check has found; the first one may go on."""
    found = _check(request, check_id).results.select_related("asked_by")
    rows = list((found if query.before is None else found.filter(pk__lt=query.before))[: query.limit])
    return {"items": [row.to_dict() for row in rows], "next": rows[-1].pk if len(rows) == query.limit else None}


@router.post(f"{OF_CHECK}/badge", response={200: CheckDict, **ERRORS}, auth=needs(LAUNCH))
def renew_badge(request: HttpRequest, check_id: int) -> CheckDict:
    """Give the check's badge another address."""
    checks.renew_badge(_check(request, check_id, LAUNCH))
    return _check(request, check_id).to_dict()


def _check(request: HttpRequest, key: int, permission: str = "") -> RegressionCheck:
    return find(request, RegressionCheck.objects.shown(), permission, pk=key)


def _result(request: HttpRequest, key: int) -> CheckResultDict:
    return find(request, CheckResult.objects.select_related("asked_by"), pk=key).to_dict()
