"""Measures the requests and sockets of this process, as ASGI middleware. `registry` has no more than that."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

ROUTE = "tuneboard.route"
"""The key of the request's scope under which Django leaves the name of the route."""
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
"""Clients may send any word, and each would become a series of its own."""
STATIC, NO_ROUTE = "(static)", "(none)"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

started_at = timezone.now()
"""When this process began to count."""
disable_created_metrics()  # type: ignore[no-untyped-call]
registry = CollectorRegistry()
requests = Histogram(
    "tuneboard_http_request_duration_seconds",
    "Time from the arrival of a request until its response began, in the web process. The route is a name, never an address; "
    f"{STATIC} are files, and {NO_ROUTE} is what led to no page.",
    ("route", "method", "status"),
    buckets=BUCKETS,
    registry=registry,
)
sockets_open = Gauge(
    "tuneboard_sockets_open",
    "WebSockets that are open: each is a page that somebody is watching a run or compilation on.",
    registry=registry,
)
sockets_opened = Counter(
    "tuneboard_sockets_opened_total", "WebSockets that were opened since the web process started.", registry=registry
)
ProcessCollector(registry=registry)


class MeasuredRequests:
    """Observes when each response begins. A request that the client gives up before isn't counted."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began = time.perf_counter()
        route: list[str] = []

        async def measured(message: Any) -> None:
            if message["type"] == "http.response.start":
                _observe(scope, route, message["status"], time.perf_counter() - began)
            await send(message)

        await self.application({**scope, ROUTE: route}, receive, measured)


def _observe(scope: Any, route: list[str], status: int, seconds: float) -> None:
    method = scope["method"] if scope["method"] in METHODS else "other"
    files = STATIC if scope["path"].startswith(f"/{settings.STATIC_URL.lstrip('/')}") else NO_ROUTE
    requests.labels(route[0] if route else files, method, f"{status // 100}xx").observe(seconds)


class RouteName(MiddlewareMixin):
    """Tells `MeasuredRequests` the name of the route, which is known only once Django has resolved the address.

    Must come before middleware that refuses requests.
    """

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """Leave the name in the scope; in tests there may be none."""
        route = getattr(request, "scope", {}).get(ROUTE)
        if route is not None and request.resolver_match:
            route.append(request.resolver_match.view_name)


class MeasuredSockets:
    """Counts sockets from their acceptance to their end."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        accepted = False

        async def counted(message: Any) -> None:
            nonlocal accepted
            if message["type"] == "websocket.accept" and not accepted:
                accepted = True
                sockets_opened.inc()
                sockets_open.inc()
            await send(message)

        try:
            await self.application(scope, receive, counted)
        finally:
            if accepted:
                sockets_open.dec()
