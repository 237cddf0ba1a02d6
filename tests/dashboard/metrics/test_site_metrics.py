"""What /metrics says about the site, as Prometheus' own parser reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics

from dashboard.metrics import site
from tests.live import free_port
from tests.world import (
    claimed,
    make_compilation,
    make_extraction,
    make_machine,
    make_network,
    make_run,
    make_tasks,
    make_user,
    on,
    record_trials,
    set_beside,
)
from tuning.actions import curation, sweeping
from tuning.models import Delivery, PoolMember, Run, Tally
from tuning.work import synthetic

pytestmark = pytest.mark.django_db
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def uncached(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "CACHED_S", -1.0)
    settings.METRICS_FROM = [ip_network("127.0.0.1")]


def scraped() -> Samples:
    answer = Client().get("/metrics")
    assert answer.status_code == 200
    families = parser.text_string_to_metric_families(answer.content.decode())
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def value(name: str, **labels: str) -> float | None:
    return scraped().get((f"tuneboard_{name}", frozenset(labels.items())))


def ago(seconds: float) -> Any:
    return timezone.now() - timedelta(seconds=seconds)


def test_an_empty_site_has_a_zero_for_each_status_and_device() -> None:
    found = scraped()
    runs = {dict(labels)["status"]: count for (name, labels), count in found.items() if name == "tuneboard_runs"}
    assert runs == dict.fromkeys(Run.Status.values, 0.0)
    assert value("device_busy", machine="", device="cpu") == 0
    assert value("trials_total", machine="", device="cpu") == 0
    assert value("trials_failed_total", machine="", device="cpu", kind="build_timeout") == 0
    assert value("queue_oldest_seconds", queue="cpu", machine="") == 0
    assert value("sweep_age_seconds") is None, "it was never done, so it has no age"


def test_it_counts_runs_by_status_without_deleted_ones() -> None:
    make_run()
    make_run(archived=True)
    gone = make_run(status="failed")
    make_run(status="failed")
    curation.delete(gone)
    assert (value("runs", status="queued"), value("runs", status="failed"), value("runs", status="running")) == (
        2,
        1,
        0,
    )


def test_it_counts_compilations_and_deliveries_by_status() -> None:
    make_compilation(make_run(status="finished"))
    gone = make_run(status="finished")
    make_compilation(gone, status="failed")
    curation.delete(gone)
    Delivery.objects.create(url="https://chat.example/x", kind="test", message={}, status="failed")
    assert (value("compilations", status="finished"), value("compilations", status="failed")) == (1, 0)
    assert (value("deliveries", status="failed"), value("deliveries", status="sent")) == (1, 0)


def test_it_knows_the_length_and_age_of_each_queue() -> None:
    claimed(make_run())
    make_run(queued_at=ago(50))
    make_run(queued_at=ago(20))
    make_run(device="rpc:lab/pi", queued_at=ago(70))
    done = make_run(status="finished", device="cpu")
    unbuilt = {"status": "queued", "verified": None, "sha256": None}
    make_compilation(done, stage="prove", queued_at=ago(90), status="queued")
    make_compilation(done, stage="build", queued_at=ago(30), **unbuilt)
    set_beside([done, make_run(status="finished")], queued_at=ago(10))
    make_extraction(make_network(), status="queued")
    for due in (ago(40), timezone.now() + timedelta(hours=1)):
        Delivery.objects.create(url="https://chat.example/x", kind="test", message={}, due_at=due)
    lengths = {"cpu": 4, "rpc:lab/pi": 1, "compile": 1, "extract": 1, "webhook": 1}
    assert {name: value("queue_length", queue=name, machine="") for name in lengths} == lengths
    ages = {"cpu": 90, "rpc:lab/pi": 70, "compile": 30, "webhook": 40}
    for name, age in ages.items():
        assert age <= (value("queue_oldest_seconds", queue=name, machine="") or 0) < age + 60, name
    assert value("queue_oldest_seconds", queue="extract", machine="") is None, "not recorded"
    assert value("device_busy", machine="", device="cpu") == 1
    assert value("device_busy", machine="", device="rpc:lab/pi") == 0


def test_a_machine_has_figures_of_its_own() -> None:
    one, two = make_machine("lab-1"), make_machine("lab-2", devices=["cpu", "cuda:0"])
    run = on(one)
    make_run(chosen_machine=two, queued_at=ago(50))
    make_run(queued_at=ago(20))
    PoolMember.objects.create(run=run, machine=two, device="cuda:0", pool="p", state="measuring", heartbeat_at=Now())
    Tally.objects.add("cpu", {Tally.What.TRIALS: 3, Tally.failed_as("run"): 1}, "lab-1")
    Tally.objects.add("rpc:lab/pi", {Tally.What.TRIALS: 2}, "lab-2")
    Tally.objects.add("cpu", {Tally.What.TRIALS: 9}, "a machine that was forgotten")
    found = scraped()

    def read(name: str, **labels: str) -> float:
        return found[f"tuneboard_{name}", frozenset(labels.items())]

    lengths = {machine: read("queue_length", queue="cpu", machine=machine) for machine in ("", "lab-1", "lab-2")}
    assert lengths == {"": 1, "lab-1": 0, "lab-2": 1}
    assert 50 <= read("queue_oldest_seconds", queue="cpu", machine="lab-2") < 110
    busy = [read("device_busy", machine=name, device=device) for name, device in (("lab-1", "cpu"), ("lab-2", "cpu"))]
    assert (busy, read("device_busy", machine="lab-2", device="cuda:0")) == ([1, 0], 1)
    assert read("trials_total", machine="lab-1", device="cpu") == 3
    assert read("trials_failed_total", machine="lab-1", device="cpu", kind="run") == 1
    assert read("trials_total", machine="", device="rpc:lab/pi") == 2, "it belongs to the whole site"
    assert {dict(labels).get("machine") for _, labels in found} == {None, "", "lab-1", "lab-2"}


def test_files_to_watch_wait_in_a_queue_of_their_own() -> None:
    make_run(device="", origin="watched", trials_budget=None)
    claimed(make_run(device="", origin="watched", trials_budget=None))
    assert value("queue_length", queue="watch", machine="") == 1
    empty = [labels for _, labels in scraped() if {("queue", ""), ("device", "")} & labels]
    assert empty == []


def test_verifying_a_library_keeps_a_device_busy() -> None:
    make_compilation(make_run(status="finished", device="cuda:0"), stage="prove", status="running")
    assert value("device_busy", machine="", device="cuda:0") == 1
    assert value("device_busy", machine="", device="cpu") == 0


def test_measuring_side_by_side_keeps_a_device_busy() -> None:
    runs = [make_run(status="finished", device="cuda:0") for _ in range(2)]
    assert set_beside(runs, device="cuda:0").claim()
    assert value("device_busy", machine="", device="cuda:0") == 1


def test_trials_and_failures_are_counters_that_deleting_a_run_doesnt_lower() -> None:
    run = claimed(make_run())
    make_tasks(run)
    record_trials(run, [(0, 1e-3), (1, None), (0, None)])
    record_trials(run, [(0, 2e-3)])
    run.move("running", to="finished")
    before = [
        value("trials_total", machine="", device="cpu"),
        value("trials_failed_total", machine="", device="cpu", kind="run"),
    ]
    assert before == [4, 2]
    curation.delete(run)
    Run.everything.update(deleted_at=ago(90 * 86_400))
    sweeping.sweep()
    assert not Run.everything.exists()
    assert [
        value("trials_total", machine="", device="cpu"),
        value("trials_failed_total", machine="", device="cpu", kind="run"),
    ] == before


def test_synthetic_trials_are_not_counted() -> None:
    synthetic.seed_run(100, 2)
    assert not Tally.objects.exists()
    assert value("runs", status="finished") == 1


def test_totals_outlive_the_counts_of_minutes() -> None:
    Tally.objects.add("cpu", {Tally.What.TRIALS: 3, Tally.What.TUNED_S: 2.5})
    Tally.objects.exclude(minute=Tally.objects.totals()[0].minute).update(minute=ago(2 * 86_400))
    Tally.objects.add("cpu", {Tally.What.TRIALS: 2})
    sweeping.sweep()
    assert Tally.objects.count() == 3, "two totals, and this minute's trials"
    assert (
        value("trials_total", machine="", device="cpu"),
        value("tuning_seconds_total", machine="", device="cpu"),
    ) == (5, 2.5)


def test_recording_has_a_mean() -> None:
    Tally.objects.add("cpu", {Tally.What.LAG_S: 0.5, Tally.What.LAGS: 4})
    assert value("recorder_lag_seconds_count", machine="", device="cpu") == 4
    assert value("recorder_lag_seconds_sum", machine="", device="cpu") == 0.5


def test_it_knows_when_the_sweep_was_last_done() -> None:
    sweeping.sweep()
    assert 0 <= (value("sweep_age_seconds") or math.inf) < 600


def test_it_says_what_it_runs_on() -> None:
    (labels,) = [dict(labels) for name, labels in scraped() if name == "tuneboard_build_info"]
    assert labels["database"] == connection.vendor
    assert all(labels[name] for name in ("version", "tvm", "python", "django"))
    assert (value("disk_free_bytes") or 0) < (value("disk_size_bytes") or 0)
    assert (value("database_up"), value("broker_up")) == (1, 1)


def test_it_answers_without_the_broker(settings: Any) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    assert (value("broker_up"), value("database_up"), value("runs", status="queued")) == (0, 1, 0)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError("could not connect to server")

    with monkeypatch.context() as patched:
        patched.setattr(CursorWrapper, "execute", refuse)
        yield


def test_it_answers_without_the_database(away: None) -> None:
    found = scraped()
    assert found["tuneboard_database_up", frozenset()] == 0
    assert found["tuneboard_broker_up", frozenset()] == 1
    names = {name for name, _ in found}
    assert "tuneboard_disk_free_bytes" in names
    assert "tuneboard_sockets_open" in names
    assert not names & {"tuneboard_runs", "tuneboard_trials_total", "tuneboard_database_latency_seconds"}


def test_many_scrapes_read_the_database_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "CACHED_S", 3600.0)
    scraped()
    with CaptureQueriesContext(connection) as queries:
        scraped()
    assert len(queries) == 0


def test_the_number_of_queries_doesnt_grow() -> None:
    with CaptureQueriesContext(connection) as few:
        scraped()
    for device in ("cpu", "cuda:0", "rpc:lab/pi"):
        for _ in range(3):
            make_run(device=device)
        Tally.objects.add(device, {Tally.What.TRIALS: 1})
    with CaptureQueriesContext(connection) as many:
        scraped()
    assert len(many) == len(few)


def test_it_speaks_openmetrics_to_who_asks_for_it() -> None:
    Tally.objects.add("cpu", {Tally.What.TRIALS: 3})
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    answer = Client().get("/metrics", headers={"accept": accept})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    read = read_openmetrics(answer.content.decode())  # type: ignore[no-untyped-call]
    families = {family.name: family for family in read}
    assert families["tuneboard_trials"].type == "counter"


def test_it_counts_machines_by_state_and_says_how_long_each_is_silent() -> None:
    assert value("machines", state="lost") == 0
    make_machine("lab-1")
    make_machine("lab-2", draining_at=ago(5))
    make_machine("lab-3", heartbeat_at=ago(3600))
    assert [value("machines", state=state) for state in ("idle", "drained", "lost")] == [1, 1, 1]
    assert value("machine_silence_seconds", machine="lab-3") == pytest.approx(3600, abs=100)


def test_every_metric_keeps_to_the_conventions() -> None:
    make_user()
    for family in parser.text_string_to_metric_families(Client().get("/metrics").content.decode()):
        assert family.documentation.endswith("."), family.name
        if family.name.startswith("tuneboard_"):
            assert len(family.documentation) > 30, f"{family.name}: a stranger wouldn't understand it"
            assert {one.name.endswith("_total") for one in family.samples} in ({family.type == "counter"}, set()), (
                family.name
            )
