"""The metrics in the formats that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from .site import SiteCollector
from .web import registry


class _All(Collector):
    """What this process counted, then the state of the site."""

    def __init__(self) -> None:
        self.site = SiteCollector()

    def collect(self) -> Iterable[Metric]:
        return chain(registry.collect(), self.site.collect())


_all = _All()


def exposition(accept: str) -> tuple[bytes, str]:
    """All metrics and their content type: OpenMetrics if the Accept header asks for it, otherwise Prometheus' own."""
    encode, content_type = choose_encoder(accept)
    return encode(_all), content_type
