"""The site's state as metrics, read from the database when somebody asks, and at most every few seconds."""

from __future__ import annotations

import logging
import platform
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import django
from django.conf import settings
from django.db import Error, connection
from django.utils import timezone
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from tuning.engines.wire.versions import installed
from tuning.host.reachable import broker_trouble
from tuning.reads import metrics
from tuning.reads.metrics import Device, Place, Queue, State, Waiting
from tuning.version import VERSION

logger = logging.getLogger(__name__)
CACHED_S = 3.0
"""How old the state may be: however many scrape, the database is read this often."""


class SiteCollector(Collector):
    """Reads the state for all who ask within `CACHED_S`, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._known: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        """What is known: without the database, only whether it and the broker answer, and this machine's disk."""
        with self._lock:
            if time.monotonic() > self._read_at + CACHED_S:
                self._known = list(_all())
                self._read_at = time.monotonic()
            return self._known


def _all() -> Iterator[Metric]:
    yield _build()
    yield _gauge(
        "tuneboard_broker_up",
        "Whether the Redis or Valkey that carries jobs and live updates answers: 1 or 0.",
        not broker_trouble(),
    )
    yield from _disk()
    try:
        latency_s = database_latency_s()
        state = metrics.state()
    except Error as error:
        logger.warning("The metrics lack what is in the database: %s", str(error).strip())
        connection.close()
        yield _database_up(up=False)
        return
    yield _database_up(up=True)
    yield _gauge(
        "tuneboard_database_latency_seconds", "Time that the smallest possible query took, with connecting.", latency_s
    )
    yield from _site(state)


def _database_up(*, up: bool) -> Metric:
    return _gauge(
        "tuneboard_database_up", "Whether the database answers: 1 or 0. Without it, most other metrics are missing.", up
    )


def _build() -> Metric:
    labels = {
        "version": VERSION,
        "tvm": installed("apache-tvm") or "",
        "python": platform.python_version(),
        "django": django.get_version(),
        "database": connection.vendor,
    }
    return InfoMetricFamily(
        "tuneboard_build", "Versions of Tuneboard and what it runs on, as labels; the value is always 1.", labels
    )


def database_latency_s() -> float:
    """Seconds that the smallest possible query takes; connecting counts if this thread isn't connected yet."""
    began = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    return time.perf_counter() - began


def _disk() -> Iterator[Metric]:
    try:
        disk = shutil.disk_usage(settings.VAR)
    except OSError:
        return
    yield _gauge("tuneboard_disk_free_bytes", "Free space of the file system that TUNEBOARD_VAR is on.", disk.free)
    yield _gauge("tuneboard_disk_size_bytes", "Size of the file system that TUNEBOARD_VAR is on.", disk.total)


def _site(state: State) -> Iterator[Metric]:
    yield _gauges("tuneboard_runs", "Runs that aren't deleted, by status.", "status", state.runs)
    yield _gauges(
        "tuneboard_compilations", "Compilations of runs that aren't deleted, by status.", "status", state.compilations
    )
    yield _gauges(
        "tuneboard_deliveries",
        "Messages to webhooks in the last 30 days, by status; failed ones were given up.",
        "status",
        state.deliveries,
    )
    yield from _queues(state.queues)
    # A machine that was forgotten is told of no more, so that those which come and go don't add up.
    there_are = {"", *state.silences}
    yield from _devices({place: one for place, one in state.devices.items() if place.machine in there_are})
    yield _gauges(
        "tuneboard_machines",
        "Machines by state; one is lost if it wasn't heard from for 30 s.",
        "state",
        state.machines,
    )
    yield _gauges(
        "tuneboard_machine_silence_seconds",
        "Time since the machine was heard from, which is every 5 s; after 30 s it is lost.",
        "machine",
        state.silences,
    )
    if state.swept_at is not None:
        yield _gauge(
            "tuneboard_sweep_age_seconds",
            "Time since the sweep was last done. It runs every 5 s, ends runs whose worker died, and repeats lost messages.",
            age_s(state.swept_at),
        )


def _queues(queues: Mapping[Queue, Waiting]) -> Iterator[Metric]:
    lengths = GaugeMetricFamily(
        "tuneboard_queue_length",
        "What waits: for a device, runs to tune, libraries to verify and runs to measure side by side; compile, extract, webhook and watch are jobs without a "
        "device. The machine is the only one that may take it; empty: any that fits.",
        labels=["queue", "machine"],
    )
    ages = GaugeMetricFamily(
        "tuneboard_queue_oldest_seconds",
        "How long the oldest in the queue has been waiting; 0 if nothing waits. Extractions don't record it.",
        labels=["queue", "machine"],
    )
    for queue, waiting in queues.items():
        lengths.add_metric(queue, waiting.length)
        if waiting.since or not waiting.length:
            ages.add_metric(queue, age_s(waiting.since))
    yield from (lengths, ages)


def _devices(devices: Mapping[Place, Device]) -> Iterator[Metric]:
    labels = list(Place._fields)
    busy = GaugeMetricFamily(
        "tuneboard_device_busy",
        "Whether the machine's device tunes a run, measures for one, or verifies a library: 1 or 0.",
        labels=labels,
    )
    trials = CounterMetricFamily(
        "tuneboard_trials",
        "Trials recorded, failed ones included, by the machine and device that measured. Deleting a run doesn't lower it.",
        labels=labels,
    )
    failed = CounterMetricFamily(
        "tuneboard_trials_failed",
        "Trials that failed, by machine, device and kind of error: while building or running, or by a time limit.",
        labels=[*labels, "kind"],
    )
    tuned = CounterMetricFamily(
        "tuneboard_tuning_seconds",
        "Time in which runs were being tuned, loading and search included, or the machine took part in one.",
        labels=labels,
    )
    lag = SummaryMetricFamily(
        "tuneboard_recorder_lag_seconds",
        "Time from the end of a trial until it was stored and watchers were told of it.",
        labels=labels,
    )
    for place, one in devices.items():
        busy.add_metric(place, one.busy)
        trials.add_metric(place, one.trials)
        tuned.add_metric(place, one.tuned_s)
        lag.add_metric(place, count_value=int(one.lags), sum_value=one.lag_s)
        for kind, count in one.failed.items():
            failed.add_metric([*place, kind], count)
    yield from (busy, trials, failed, tuned, lag)


def age_s(moment: datetime | None) -> float:
    """Seconds since then, never negative: clocks of several machines may differ."""
    return max(0.0, (timezone.now() - moment).total_seconds()) if moment else 0.0


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=float(value))


def _gauges(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family
