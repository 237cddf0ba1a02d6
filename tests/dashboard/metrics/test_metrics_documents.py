"""docs/metrics.md and the Grafana dashboard name the metrics that there are, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from ipaddress import ip_network
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from prometheus_client import parser

from dashboard.metrics import site
from tests.world import make_machine, measured_run
from tuning.actions import sweeping

pytestmark = pytest.mark.django_db
PARTS = ("_bucket", "_count", "_sum")


@pytest.fixture
def families(settings: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What /metrics says, by name, after something has happened."""
    monkeypatch.setattr(site, "CACHED_S", -1.0)
    settings.METRICS_FROM = [ip_network("127.0.0.1")]
    measured_run()
    make_machine()
    sweeping.sweep()
    text = Client().get("/metrics").content.decode()
    read = parser.text_string_to_metric_families(text)
    return {f"{one.name}_total" if one.type == "counter" else one.name: one for one in read}


@pytest.fixture(scope="module")
def document(project_root: Path) -> str:
    return (project_root / "docs/metrics.md").read_text()


@pytest.fixture(scope="module")
def dashboard(project_root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project_root / "docs/grafana/tuneboard.json").read_text())
    return found


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (one["definition"] for one in dashboard["templating"]["list"] if one["type"] == "query")


def unknown(expression: str, families: dict[str, Any]) -> set[str]:
    """Names in the expression that no metric has."""
    named = set(re.findall(r"\b(?:tuneboard|process)_\w+", expression))
    samples = {
        f"{name}{part}" for name, one in families.items() for part in PARTS if one.type in ("histogram", "summary")
    }
    return named - families.keys() - samples


def test_the_table_lists_every_metric_with_its_kind_and_labels(families: dict[str, Any], document: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|(.*?)\| .+ \|$", document, re.MULTILINE)
    listed = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    ours = {name: one for name, one in families.items() if name.startswith("tuneboard_")}
    said = {
        name: (one.type, {label for sample in one.samples for label in sample.labels} - {"le"})
        for name, one in ours.items()
    }
    # Without the ASGI application nothing is measured, so its labels don't show.
    requests = "tuneboard_http_request_duration_seconds"
    said[requests] = (said[requests][0], {"route", "method", "status"})
    assert listed == said


def test_every_other_metric_is_of_the_process(families: dict[str, Any]) -> None:
    assert [name for name in families if not name.startswith(("tuneboard_", "process_"))] == []


def test_the_alerts_name_only_metrics_that_exist(families: dict[str, Any], document: str) -> None:
    rules = re.findall(r"^ +expr: (.+)$", document, re.MULTILINE)
    assert len(rules) > 5
    assert [rule for rule in rules if unknown(rule, families)] == []


def test_the_dashboard_names_only_metrics_that_exist(families: dict[str, Any], dashboard: dict[str, Any]) -> None:
    assert [one for one in expressions(dashboard) if unknown(one, families)] == []


def test_the_dashboard_shows_every_metric(families: dict[str, Any], dashboard: dict[str, Any]) -> None:
    shown = set(re.findall(r"\btuneboard_\w+", " ".join(expressions(dashboard))))
    whole = shown | {name.removesuffix(part) for name in shown for part in PARTS}
    assert {name for name in families if name.startswith("tuneboard_")} - whole == set()


def test_the_dashboard_lets_its_reader_choose_the_datasource(dashboard: dict[str, Any]) -> None:
    (source,) = [one for one in dashboard["templating"]["list"] if one["type"] == "datasource"]
    assert source["query"] == "prometheus"
    used = [part["datasource"] for panel in dashboard["panels"] for part in (panel, *panel["targets"])]
    assert all(one == {"type": "prometheus", "uid": f"${{{source['name']}}}"} for one in used)
    assert dashboard["id"] is None, "an id would replace somebody's dashboard"


def test_the_panels_have_places_of_their_own(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or above, (one, other)
