"""How fast this process has answered, by route, from the histogram that Prometheus gets."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from typing import NamedTuple

from .web import BUCKETS, registry, requests, started_at

INFINITE = float("inf")


class RouteLatency(NamedTuple):
    """A route's requests. `half_s` and `most_s` are bounds that 50 % and 95 % of them kept, infinite if above all buckets."""

    route: str
    requests: int
    half_s: float
    most_s: float
    broken: int
    """Answered with a server error."""


class Served(NamedTuple):
    """What the web process has served since it started. Routes with the most requests come first."""

    since: datetime
    whole: RouteLatency | None
    """All routes together; None before the first request."""
    routes: list[RouteLatency]
    sockets_open: int
    sockets_opened: int


def served() -> Served:
    by_route: dict[str, Counter[float]] = defaultdict(Counter)
    broken: Counter[str] = Counter()
    for metric in requests.collect():
        for sample in metric.samples:
            if sample.name.endswith("_bucket"):
                by_route[sample.labels["route"]][float(sample.labels["le"])] += int(sample.value)
            elif sample.name.endswith("_count") and sample.labels["status"] == "5xx":
                broken[sample.labels["route"]] += int(sample.value)
    routes = [_latency(route, upto, broken[route]) for route, upto in by_route.items()]
    whole = sum(by_route.values(), Counter[float]())
    return Served(
        since=started_at,
        whole=_latency("", whole, broken.total()) if whole else None,
        routes=sorted(routes, key=lambda one: (-one.requests, one.route)),
        sockets_open=_value("tuneboard_sockets_open"),
        sockets_opened=_value("tuneboard_sockets_opened_total"),
    )


def _latency(route: str, upto: Counter[float], broken: int) -> RouteLatency:
    """`upto` has the number of requests within each bound."""
    count = upto[INFINITE]
    half_s, most_s = (
        next(bound for bound in (*BUCKETS, INFINITE) if upto[bound] >= share * count) for share in (0.5, 0.95)
    )
    return RouteLatency(route, count, half_s, most_s, broken)


def _value(name: str) -> int:
    return int(registry.get_sample_value(name) or 0)
