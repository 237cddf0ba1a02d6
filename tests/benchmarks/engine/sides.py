"""The two sides of a comparison: a run of ours as users start it, and stock TVM in its own process."""

from __future__ import annotations

import asyncio
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from channels.layers import get_channel_layer
from django.conf import settings

from tests.benchmarks.engine.remeasure import Remeasure, Remeasured
from tuning.actions import runs
from tuning.engines.targets.resolving import cores
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import Event, NetworkSpec, Start, TasksExtracted, TrialMeasured, decode_event, encode
from tuning.host import sandbox
from tuning.logs import meta_schedule
from tuning.models import Run
from tuning.notify.announce import group_name
from tuning.work.supervisor import supervise

from .plan import WORKLOADS, Pair
from .timeline import Measured, Timeline

Best = dict[int, list[tuple[float, str]]]
"""By task, its improvements: the time and the record."""


CONSOLE = "console.log"
HOUR = sandbox.Limits(3600)
GENEROUS: dict[str, Any] = {"memory_mb": 1 << 16, "cpu_s": 3600 * (os.cpu_count() or 1), "quietly": False}
"""Limits of a process that measures, too generous to be reached."""


class Tuned(NamedTuple):
    """A run of ours, its timeline, and the improvements of its tasks."""

    run: Run
    timeline: Timeline
    best: Best


class Broken(Exception):
    """The benchmark can't go on; the text says why."""


def ours(pair: Pair) -> Tuned:
    """Launch a run as `tune` does and supervise it, with one watcher."""
    run = runs.launch(_launch_data(pair), None, enqueue=False)
    watcher = _Watcher(run.pk)
    cpu, began = _cpu_s(), time.monotonic()
    supervised(run)
    wall_s, streaming_s = time.monotonic() - began, _cpu_s() - cpu
    watcher.close()
    if not watcher.first:
        raise Broken(f"Run {run.pk} was never announced.")
    weights = [weight or 0 for weight in run.tasks.order_by("index").values_list("weight", flat=True)]
    first_s = watcher.first - began
    trials = _trials_of(run, first_s)
    return Tuned(run, Timeline(weights, trials, wall_s, first_s, streaming_s), _records_of(run, trials))


def go_on(tuned: Tuned, until_s: float) -> Best:
    """Extend the run until it has taken so many seconds in total; return all its improvements."""
    run, timeline = tuned.run, tuned.timeline
    more = math.ceil(until_s * timeline.trials_a_second)
    run.requeue(*Run.ENDED, trials_budget=(run.trials_budget or 0) + more, time_limit_s=until_s)
    supervised(run)
    return _records_of(run, _trials_of(run, timeline.trials[0].at_s, started_again_after=len(timeline.trials)))


def supervised(run: Run) -> None:
    """Tune the run to its end in this process. Raises `Broken`."""
    if not run.claim():
        runs.stop(run)
        raise Broken(f"{run.device} is busy with another run: nothing can be compared meanwhile.")
    with _shutting_down_on_ctrl_c() as shutdown:
        status = supervise(run, shutdown)
    run.refresh_from_db()
    if status != Run.Status.FINISHED:
        raise Broken(f"Run {run.pk} {status}: {(run.error or '').rstrip('.')}. Its log is {run.console_log}.")


@contextmanager
def _shutting_down_on_ctrl_c() -> Iterator[threading.Event]:
    """On Ctrl-C, shut the run down as a worker would, then end the benchmark."""
    shutdown = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: shutdown.set())
    try:
        yield shutdown
    finally:
        signal.signal(signal.SIGINT, before)
    if shutdown.is_set():
        raise KeyboardInterrupt


def stock(pair: Pair, folder: Path) -> tuple[Timeline, Best]:
    """Tune the same tasks with stock TVM; its files and output go to the folder."""
    weights: list[int] = []
    received: list[tuple[float, float, TrialMeasured]] = []
    began = time.monotonic()
    workload = WORKLOADS[pair.workload]
    network = NetworkSpec(workload.network, workload.options)
    for event in stock_events(network, Options(**_options(pair)), pair.trials, folder):
        if isinstance(event, TasksExtracted):
            weights = [task.weight or 0 for task in event.tasks]
        if isinstance(event, TrialMeasured):
            assert event.at_s is not None
            received.append((time.monotonic() - began, event.at_s, event))
    wall_s = time.monotonic() - began
    if len(received) < pair.trials:
        raise Broken(f"Stock TVM ended after {len(received)} of {pair.trials} trials. Its log is {folder / CONSOLE}.")
    # The process counts from when it got its `Start`, which leaves out the time that it took to load.
    loading_s = min(heard_s - at_s for heard_s, at_s, _ in received)
    trials = [Measured(loading_s + at_s, event.task, event.latency_s, short=False) for _, at_s, event in received]
    best: Best = {task: [] for task in range(len(weights))}
    for _, at_s, event in received:
        if event.record:
            best[event.task].append((loading_s + at_s, event.record))
    return Timeline(weights, trials, wall_s, trials[0].at_s), best


def measured_together(target: dict[str, Any], records: list[str]) -> list[float]:
    """The latency of each record in seconds, all measured in turn by one process."""
    question = Remeasure(target=target, records=records, rounds=5, number=3, min_repeat_ms=100, **GENEROUS)
    try:
        found = sandbox.ask_once("tests.benchmarks.engine.remeasure", question, Remeasured, limits=HOUR)
    except Refused as error:
        raise Broken(f"The best records couldn't be measured again: {error}") from error
    return found.latencies_s()


def _launch_data(pair: Pair) -> dict[str, Any]:
    workload = WORKLOADS[pair.workload]
    name = {"name": f"bench {pair.key}", "network": workload.network, "network_options": workload.options}
    return {**name, "target": "this", "trials": pair.trials, **_options(pair)}


def _options(pair: Pair) -> dict[str, Any]:
    """No warm start and no Winograd, which stock TVM lacks, and enough time for its builders, which start slowly on a busy machine."""
    return {
        "trials_per_batch": pair.batch,
        "seed": pair.seed,
        "algorithms": "direct",
        "cold_weights": False,
        "warm_start": False,
        "transfer": False,
        "build_timeout_s": 300.0,
    }


def _trials_of(run: Run, first_s: float, started_again_after: float = math.inf) -> list[Measured]:
    """The run's trials, in seconds since the engine's process was started.

    The database counts from when the engine got its `Start`, so the first trial shows how long it took to load. A second
    engine, which measured the trials after `started_again_after`, took as long.
    """
    index = dict(run.tasks.values_list("pk", "index"))
    columns = ("at_s", "task_id", "latency_s", "short", "number")
    rows = [(at_s or 0.0, *rest) for at_s, *rest in run.trials.order_by("number").values_list(*columns)]
    loading_s = max(0.0, first_s - rows[0][0])
    return [
        Measured(at_s + (2 * loading_s if number > started_again_after else loading_s), index[task], latency_s, short)
        for at_s, task, latency_s, short, number in rows
    ]


def _records_of(run: Run, trials: list[Measured]) -> Best:
    """Read the improvements' records from the run's record file, whose line n is trial n."""
    best: Best = {task: [] for task in range(run.tasks_total)}
    improved = set(run.trials.improvements().values_list("number", flat=True))
    workloads = (run.work_dir / meta_schedule.WORKLOADS).read_bytes()
    with run.record_file.open("rb") as records:
        lines = list(meta_schedule.entries(workloads, records, run.trials_done))
    for number, line in enumerate(lines, start=1):
        if number in improved and line is not None:
            trial = trials[number - 1]
            workload, record = (text.decode() for text in line)
            best[trial.task].append((trial.at_s, f"[{workload},{record}]"))
    return best


def stock_events(network: NetworkSpec, options: Options, trials: int, folder: Path) -> Generator[Event, None, None]:
    """What stock TVM tells while it tunes; its process ends with the generator. Its files and output go to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    start = Start(
        run_id=0,
        network=network,
        target="this",
        options=options,
        trials_budget=trials,
        trials_done=0,
        elapsed_s=0.0,
        work_dir=str(folder.absolute()),
    )
    reader, writer = os.pipe()
    # On x86, TVM would use half of the logical cores, but both sides must measure with as many threads.
    env = {**os.environ, "TVM_NUM_THREADS": str(cores())}
    command = [sys.executable, "-m", "tests.benchmarks.engine.stock", "--events-fd", str(writer)]
    with (folder / CONSOLE).open("ab") as log, os.fdopen(reader, "rb") as events:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writer], cwd=settings.BASE_DIR, env=env
        )
        os.close(writer)
        assert process.stdin
        try:
            process.stdin.write(encode(start))
            process.stdin.flush()
            yield from map(decode_event, events)
        finally:
            events.close()  # Otherwise a process that waits for room in the pipe would never end.
            process.stdin.close()
            if process.poll() is None:
                process.terminate()
            process.wait()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class _Watcher:
    """Joins the run's group like a browser's consumer, and notes when the first trial arrives."""

    def __init__(self, run_id: int) -> None:
        self.first = 0.0
        """When it arrived, by the monotonic clock; 0 before that."""
        self._loop = asyncio.new_event_loop()
        self._joined = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._watch(run_id),), daemon=True)
        self._ended = asyncio.Event()
        self._thread.start()
        self._joined.wait(5)

    async def _watch(self, run_id: int) -> None:
        layer = get_channel_layer()
        assert layer is not None
        channel = await layer.new_channel()
        await layer.group_add(group_name(run_id), channel)
        self._joined.set()
        ended = asyncio.ensure_future(self._ended.wait())
        while not ended.done():
            message = asyncio.ensure_future(layer.receive(channel))
            await asyncio.wait({message, ended}, return_when=asyncio.FIRST_COMPLETED)
            if message.done():
                self._receive(msgspec.json.decode(message.result()["text"]))
            else:
                message.cancel()

    def _receive(self, delta: dict[str, Any]) -> None:
        if delta["trials"]["number"] and not self.first:
            self.first = time.monotonic()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(5)


@contextmanager
def own_channel_layer(folder: Path) -> Iterator[None]:
    """Run a Valkey for announcements if none is configured or running."""
    from tuning.host import valkey

    if valkey.url(settings.VAR) != settings.REDIS_URL or valkey.answers(settings.VAR):
        yield
        return
    valkey.prepare(folder)
    process = subprocess.Popen(valkey.command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not valkey.answers(folder):
            time.sleep(0.05)
            if process.poll() is not None:
                raise Broken("Valkey didn't start.")
        layers: dict[str, Any] = settings.CHANNEL_LAYERS
        layers["default"]["CONFIG"]["hosts"] = [valkey.url(folder)]
        yield
    finally:
        process.terminate()
        process.wait()
        valkey.clean_up(folder)
