"""Requests and sockets are measured where they enter, and by names that nobody can make up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.test import Client
from django.urls import resolve

from dashboard.asgi import application
from dashboard.metrics import latencies
from dashboard.metrics.latencies import served
from dashboard.metrics.web import BUCKETS, registry
from tests.sockets import Socket
from tests.world import make_user, measured_run

pytestmark = pytest.mark.django_db(transaction=True)


def count(route: str, method: str = "GET", status: str = "2xx") -> float:
    labels = {"route": route, "method": method, "status": status}
    return registry.get_sample_value("tuneboard_http_request_duration_seconds_count", labels) or 0.0


def sockets() -> tuple[float | None, float | None]:
    return tuple(registry.get_sample_value(f"tuneboard_sockets_{name}") for name in ("open", "opened_total"))  # type: ignore[return-value]


async def ask(path: str, method: str = "GET", *, host: bytes = b"testserver", client: Client | None = None) -> int:
    """A request through the whole ASGI application; returns the status."""
    headers = [(b"host", host)]
    if client:
        headers.append((b"cookie", client.cookies.output(header="", sep=";").strip().encode()))
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
    }
    asked = ApplicationCommunicator(application, scope)
    await asked.send_input({"type": "http.request", "body": b"", "more_body": False})
    status: int = (await asked.receive_output(20))["status"]
    while (await asked.receive_output(20)).get("more_body"):
        pass
    await asked.wait(20)
    return status


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


async def test_a_request_is_counted_under_the_name_of_its_route(viewer: Client) -> None:
    run = await database_sync_to_async(measured_run)()
    before = count("run_page"), count("run_figures")
    assert await ask(f"/runs/{run.pk}/", client=viewer) == 200
    assert (count("run_page"), count("run_figures")) == (before[0] + 1, before[1])
    assert all(str(run.pk) not in one.route for one in served().routes)


@pytest.mark.parametrize(
    ("path", "method", "route", "status"),
    [
        ("/healthz", "GET", "health", "2xx"),
        ("/runs/", "GET", "run_list", "3xx"),
        ("/runs/1/stop/", "POST", "run_stop", "4xx"),
        ("/metrics", "GET", "metrics", "4xx"),
        ("/api/v1/runs", "GET", resolve("/api/v1/runs").view_name, "4xx"),
        ("/nowhere/at/all", "GET", "(none)", "4xx"),
        ("/static/nothing.css", "GET", "(static)", "4xx"),
    ],
)
async def test_refused_and_missing_requests_count_too(path: str, method: str, route: str, status: str) -> None:
    before = count(route, method, status)
    await ask(path, method)
    assert count(route, method, status) == before + 1


async def test_an_error_counts_as_one(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("tuning.reads.device_status.beside_machines", broken)
    before = count("machine_page", status="5xx")
    assert await ask("/machines/", client=viewer) == 500
    assert count("machine_page", status="5xx") == before + 1
    (page,) = [one for one in served().routes if one.route == "machine_page"]
    assert page.broken >= 1


async def test_nobody_can_add_series_by_making_up_words() -> None:
    await ask("/healthz")
    await ask("/nowhere")
    await ask("/healthz", "BREW")
    await ask("/healthz", host=b"evil.example")
    known = {one.route for one in served().routes}
    for word in ("A", "B", "C"):
        await ask(f"/{word}/{word}", f"BREW{word}", host=word.encode())
        await ask("/healthz", f"BREW{word}")
    assert {one.route for one in served().routes} == known
    methods = {s.labels["method"] for m in registry.collect() for s in m.samples if "method" in s.labels}
    assert methods <= {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "other"}


async def test_a_socket_is_counted_from_opening_to_closing(viewer: Client) -> None:
    run = await database_sync_to_async(measured_run)()
    opened, total = sockets()
    assert opened is not None
    assert total is not None
    socket = Socket(viewer, f"/ws/runs/{run.pk}/")
    assert await socket.connect()
    assert sockets() == (opened + 1, total + 1)
    await socket.read()
    await socket.close()
    assert sockets() == (opened, total + 1)


async def test_a_refused_socket_was_never_open() -> None:
    before = sockets()
    assert not await Socket(None, "/ws/runs/1/").connect()
    assert sockets() == before


async def test_a_socket_that_the_server_closes_is_closed(viewer: Client) -> None:
    before = sockets()[0]
    socket = Socket(viewer, "/ws/runs/999/")
    await socket.connect()
    assert await socket.closing_code() == 4404
    assert sockets()[0] == before


def test_bounds_are_those_that_enough_requests_kept() -> None:
    upto = dict.fromkeys((*BUCKETS, latencies.INFINITE), 0)
    for bound in upto:
        upto[bound] = 0 if bound < 0.05 else 19 if bound < 0.1 else 20
    found = latencies._latency("r", Counter(upto), 0)
    assert (found.requests, found.half_s, found.most_s) == (20, 0.05, 0.05)
    slow = latencies._latency("r", Counter({latencies.INFINITE: 3}), 0)
    assert slow.half_s == latencies.INFINITE
