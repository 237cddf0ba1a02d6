"""This machine as one of a run's pool: builds candidates in parallel, and measures them one by one."""

from __future__ import annotations

import logging
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import tvm  # noqa: F401  forked workers have it loaded
import zstandard
from tvm.s_tir import meta_schedule as ms  # noqa: F401
from tvm.target import Target

from tuning.engines.confinement import confine_in
from tuning.engines.forking import fork_server
from tuning.engines.measuring.local import YIELDING, LocalBuilder, LocalRunner
from tuning.engines.measuring.outcomes import LEAST_FREE, Failure, Timing
from tuning.engines.targets import cuda, intrinsics
from tuning.engines.targets.here import local_artifact_suffix, measures_beside, measures_on_cpu, threads_to_measure
from tuning.engines.targets.resolving import cores, resolve
from tuning.engines.wire.errors import RunRefused
from tuning.engines.wire.pools.messages import PoolStart, Probe, Probed
from tuning.engines.wire.protocol import Candidate, Measured
from tuning.engines.wire.question import Reach
from tuning.engines.wire.target_fields import TargetRefused

from .device import Inbox, Send

logger = logging.getLogger("tuneboard")
MOST_BUILT = 4
"""How many candidates a machine builds at once at most: each one that it holds is a result that the search lacks."""


@dataclass(frozen=True)
class Built:
    """What was asked for, and the artifact or why there is none."""

    asked: Candidate | Probe
    artifact: Path | Failure
    build_s: float


class Machine:
    """Confines this process when it is made, and forks its workers' server, so there must be one thread. Raises `RunRefused`."""

    def __init__(self, start: PoolStart) -> None:
        self._start = start
        logger.info("%s", confine_in(start.scratch, Reach()))
        intrinsics.load_with_workers(intrinsics.kind_for(str(start.target.get("kind")), start.target))
        cuda.choose_compiler()
        self._context = fork_server.start_fork_server(["tuning.engines.pool.preloaded"])
        self._target = _target(start)
        self._folder = Path(tempfile.gettempdir(), "artifacts")
        self._overlaps = measures_beside(start.overlap, self._target)
        self._workers = min(MOST_BUILT, start.build_workers or cores())
        self._builder = LocalBuilder(
            self._context,
            self._folder,
            max_workers=self._workers,
            timeout_s=start.build_timeout_s,
            suffix=local_artifact_suffix(self._target),
            niceness=YIELDING if self._overlaps else 0,
        )
        self._runner = self._runner_for(start.repeat, start.run_timeout_s)

    @property
    def wants(self) -> int:
        """See `Device`: as many as it builds at once, and the one that it measures."""
        return self._workers + 1

    def serve(self, inbox: Inbox, send: Send, may_begin: threading.Event) -> NoReturn:
        """See `Device`."""
        if not self._overlaps:
            while True:
                asked = _arrived(inbox, self._workers)
                may_begin.wait()  # Building disturbs a search as much as measuring does.
                for one in list(self._built(asked)):
                    may_begin.wait()
                    send(self._answer(one))
        built: queue.SimpleQueue[Built | Exception] = queue.SimpleQueue()
        threading.Thread(target=self._keep_building, args=(inbox, built), name="build", daemon=True).start()
        while True:
            next_one = built.get()
            if isinstance(next_one, Exception):
                raise next_one
            may_begin.wait()
            send(self._answer(next_one))

    def _keep_building(self, inbox: Inbox, built: queue.SimpleQueue[Built | Exception]) -> None:
        try:
            while True:
                for one in self._built(_arrived(inbox, self._workers)):
                    built.put(one)
        except Exception as error:  # noqa: BLE001  it ends the process
            built.put(error)

    def _built(self, asked: Sequence[Candidate | Probe]) -> Iterator[Built]:
        """Build in parallel. Yields each in the order they end."""
        self._require_space()
        began = time.monotonic()
        modules = [_module(one.candidate if isinstance(one, Probe) else one) for one in asked]
        for index, artifact in self._builder.build(modules, str(self._target)):
            yield Built(asked[index], artifact, time.monotonic() - began)

    def _answer(self, built: Built) -> Measured | Probed:
        if isinstance(built.asked, Probe):
            return self._probed(built.asked, built.artifact)
        began, candidate = time.monotonic(), built.asked
        outcome = self._measured(self._runner, built.artifact, candidate, candidate.limit_s)
        return Measured(
            id=candidate.id,
            machine=self._start.machine,
            **_in_numbers(outcome),
            short=isinstance(outcome, Timing) and outcome.short,
            build_s=built.build_s,
            measure_s=None if isinstance(built.artifact, Failure) else time.monotonic() - began,
        )

    def _probed(self, probe: Probe, artifact: Path | Failure) -> Probed:
        runner = self._runner_for(probe.rounds, self._start.run_timeout_s * probe.rounds)
        try:
            outcome = self._measured(runner, artifact, probe.candidate, None)
        finally:
            runner.close()
        return Probed(id=probe.candidate.id, machine=self._start.machine, **_in_numbers(outcome))

    def _measured(
        self, runner: LocalRunner, artifact: Path | Failure, candidate: Candidate, limit_s: float | None
    ) -> Timing | Failure:
        if isinstance(artifact, Failure):
            return artifact
        device = "cpu" if measures_on_cpu(self._target) else str(self._target.kind.name)
        cold_bytes = self._start.cold_bytes if candidate.cold_bytes is None else candidate.cold_bytes
        return runner.run(artifact, device, list(candidate.args_info), limit_s, cold_bytes)

    def _runner_for(self, repeat: int, timeout_s: float) -> LocalRunner:
        start = self._start
        return LocalRunner(
            self._context,
            config=(start.number, repeat, start.min_repeat_ms),
            timeout_s=timeout_s,
            threads=threads_to_measure(self._target),
        )

    def _require_space(self) -> None:
        free = shutil.disk_usage(self._folder).free
        if free < LEAST_FREE:
            raise RunRefused(f"The disk with temporary files is full: {free >> 10:,} KiB are free.")


def _target(start: PoolStart) -> Any:
    """TVM's target. Raises `RunRefused` if this machine can't build for it or run it."""
    try:
        return Target(resolve(start.target).target)
    except TargetRefused as refused:
        raise RunRefused(str(refused), "target") from refused


def _arrived(inbox: Inbox, most: int) -> list[Candidate | Probe]:
    """Wait for what is asked next, and take what else has arrived."""
    asked = [inbox.get()]
    while len(asked) < most and not inbox.empty():
        asked.append(inbox.get())
    return asked


def _module(candidate: Candidate) -> str:
    """The module's JSON. Raises `RunRefused` if it was damaged on its way, for which the candidate isn't to blame."""
    try:
        return zstandard.ZstdDecompressor().decompress(candidate.module).decode()
    except (zstandard.ZstdError, UnicodeDecodeError) as error:
        raise RunRefused(f"The module of candidate {candidate.id} can't be read: {error}") from error


def _in_numbers(outcome: Timing | Failure) -> dict[str, Any]:
    if isinstance(outcome, Failure):
        return {"error_kind": outcome.kind, "error": outcome.text}
    return {"run_secs": outcome.run_secs}
