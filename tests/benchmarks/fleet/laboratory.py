"""Temporary servers for a fleet on this machine, and processes that use them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings

from tests.benchmarks.engine.sides import Broken
from tests.fleet import Broker
from tests.live import environment
from tests.tuning.engines.running import Engine, start
from tuning.engines.wire.lifeline import die_with
from tuning.engines.wire.protocol import Candidate, Finished, Measured, Pool, TasksExtracted, encode
from tuning.host.postgresql import new_database, own_server
from tuning.logs.meta_schedule import RECORDS, WORKLOADS

from . import figures, stamps
from .figures import Finding
from .observing import START_EACH_S, START_S, Observed, Plan
from .stand_in import SAMPLE, Sample

CONNECTIONS = "max_connections = 300\n"
"""Every thread with a worker has one."""
MODEL = "model"
"""The database with tables and without rows that others are copies of."""
SPARE_S = 300.0


class Laboratory:
    """Runs plans, each with a database, a Valkey and a data folder of its own."""

    def __init__(self, folder: Path, server: str) -> None:
        self._folder, self._server = folder, server
        self._count = 0
        with self.machine(MODEL, "template1") as env:
            _call(["manage.py", "migrate", "--verbosity", "0"], env, folder / "migrate.txt")
        self._sample = folder / "sample.json"

    @contextmanager
    def machine(self, name: str, template: str = MODEL) -> Iterator[dict[str, str]]:
        """The environment of processes with a new database, Valkey and folder."""
        url = new_database(self._server, name, template)
        with Broker(self._folder) as broker:
            yield {**environment(self._folder / name / "var", url), "REDIS_URL": broker.url()}

    def observe(self, plan: Plan) -> Finding:
        """Do what the plan says. Raises `Broken`."""
        if plan.stand_in and not self._sample.exists():
            self._sample.write_bytes(msgspec.json.encode(sample(self._folder / "sample")))
        self._count += 1
        name = f"run_{self._count}"
        noted, observed = self._folder / name / "stamps", self._folder / name / "observed.json"
        noted.mkdir(parents=True)
        with self.machine(name) as env:
            env |= {stamps.FOLDER: str(noted), SAMPLE: str(self._sample)}
            limit_s = plan.seconds + START_S + START_EACH_S * plan.machines + SPARE_S
            command = ["-m", "tests.benchmarks.fleet.supervising", str(observed)]
            _call(command, env, noted.with_suffix(".txt"), msgspec.json.encode(plan).decode() + "\n", limit_s)
        return figures.finding(
            plan, msgspec.json.decode(observed.read_bytes(), type=Observed), list(stamps.read(noted))
        )

    def ask(self, module: str, name: str, *args: str) -> bytes:
        """What a module writes to the file that it is given first, with a database of its own. Raises `Broken`."""
        answer = self._folder / f"{name}.json"
        with self.machine(name) as env:
            _call(["-m", module, str(answer), *args], env, answer.with_suffix(".txt"), "", 2 * SPARE_S)
        return answer.read_bytes()


@contextmanager
def laboratory(folder: Path) -> Iterator[Laboratory]:
    """A laboratory with a PostgreSQL server. Raises `ImportError` without the package that has it."""
    with own_server(CONNECTIONS) as server:
        yield Laboratory(folder, server)


def sample(folder: Path) -> Sample:
    """A candidate of the real engine for a small matmul, and what it writes of its trial."""
    folder.mkdir(parents=True)
    first = start(folder / "work", trials_budget=1, pool=Pool(slots=1, synthetic=True))
    with Engine(first, folder / "console.txt") as engine:
        extracted = engine.until(TasksExtracted)
        candidate = engine.until(Candidate)
        engine.write(encode(Measured(id=candidate.id, machine="none", run_secs=[1e-3], synthetic=True)))
        engine.until(Finished)
    record, workload = ((folder / "work" / name).read_text() for name in (RECORDS, WORKLOADS))
    tasks: Any = extracted.tasks
    return Sample(extracted.target, tasks, candidate, workload, record)


def _call(command: list[str], env: dict[str, str], output: Path, given: str = "", limit_s: float = SPARE_S) -> None:
    """Run Python with these arguments. Raises `Broken` with the end of its output."""
    ours = os.getpid()
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as console:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=env,
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=console,
            preexec_fn=lambda: die_with(ours),  # noqa: PLW1509 - the command has one thread
        )
        try:
            process.communicate(given.encode(), limit_s)
        except subprocess.TimeoutExpired as expired:
            raise Broken(f"{command[1]} wasn't done after {limit_s:g} s:\n{_end_of(output)}") from expired
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise Broken(f"{command[1]} ended with {process.returncode}:\n{_end_of(output)}")


def _end_of(output: Path) -> str:
    return output.read_text(errors="replace")[-3000:]
