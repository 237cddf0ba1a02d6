"""No route finds anything under a number that nothing has, or fails because a number is too long or a name can't be stored."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import get_resolver

from dashboard.asgi import sockets
from tests.test_anonymous import every_operation, routes
from tests.world import make_user, measured_run
from tuning.actions import projects

NUMBERS = {"18 digits": "9" * 18, "65 bits": str(2**63), "30 digits": "9" * 30, "6000 digits": "9" * 6000}
PARAMETER = re.compile(r"<(?:(\w+):)?(\w+)>")
SOCKETS = [f"/{one.pattern}" for one in sockets]
OPERATIONS = every_operation()
NUMBERED = sorted({route for route in routes(get_resolver()) if "<number:" in route})
NAMED = sorted({route for route in routes(get_resolver()) if "<name:" in route})
LEADING_ELSEWHERE = {
    "GET /admin/people/<number:pk>/link/": 302,
    "GET /runs/new/templates/<number:pk>/delete/": 302,
    "GET /runs/new/templates/<number:pk>/rename/": 302,
}
"""To the page with the form; a number that is too long has none."""


def filled(route: str, values: list[object]) -> str:
    """The route with these values for its parameters; the last one also stands for the others."""
    given = iter(values)
    return PARAMETER.sub(lambda _: str(next(given, values[-1])), route)


def addresses(route: str, number: str, known: list[int]) -> Iterator[str]:
    """With this number for all parameters, and for all that come after one, two, … things that there are."""
    for place in range(len(PARAMETER.findall(route))):
        yield filled(route, [*known[:place], number])


def methods(route: str) -> list[str]:
    """Those of the API's operation; pages are asked by both that there are."""
    path = filled(route, [1])
    return [method for known, method in OPERATIONS if known == path] or ["GET", "POST"]


def test_every_parameter_of_an_address_is_of_a_kind_that_cant_fail() -> None:
    kinds = {kind for route in (*routes(get_resolver()), *SOCKETS) for kind, _ in PARAMETER.findall(route)}
    assert kinds == {"number", "slug", "name"}
    assert all("<number:" in route for route in SOCKETS if route != "/")


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.django_db
def test_no_route_finds_anything_under_it(client: Client, number: str) -> None:
    client.force_login(make_user("admin"))
    of_run, of_project = [measured_run().pk, 0], [projects.create("another").pk]
    assert any("/records/" in route for route in NUMBERED)
    for route in NUMBERED:
        for path in addresses(route, number, of_project if "/projects/" in route else of_run):
            asked = {method: client.generic(method, path, "{}", "application/json") for method in methods(route)}
            found = {method: answer.status_code for method, answer in asked.items() if answer.status_code != 405}
            wrong = {f"{method} {route}": status for method, status in found.items() if status != 404}
            assert found, route
            assert wrong.items() <= LEADING_ELSEWHERE.items(), path[:80]


@pytest.mark.parametrize("route", NAMED)
@pytest.mark.django_db
def test_no_name_has_a_nul(client: Client, route: str) -> None:
    client.force_login(make_user("admin"))
    path = filled(route, ["lab%00"])
    assert {client.generic(method, path, "{}", "application/json").status_code for method in methods(route)} == {404}
