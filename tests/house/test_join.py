"""`manage.py join` in processes of its own, with another data folder and over TLS: what it refuses, and that it tunes for the site."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cable import Cable
from tests.fleet import QUICK, Broker, Joined, api_of, by_tcp, socket_of
from tests.live import ROOT, LiveSite, environment
from tests.sites import SiteMaker
from tests.tls import Authority, Front


def refused(var: Path, *args: str, **env: str) -> str:
    """What a `join` says that ends with an error, in one line."""
    command = [sys.executable, str(ROOT / "manage.py"), "join", *args]
    ended = subprocess.run(
        command, env=environment(var) | env, capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 1, ended.stdout
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    return ended.stderr


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        ((), {}, "set DATABASE_URL=postgres://"),
        ((), {"DATABASE_URL": "postgres://a@127.0.0.1:9/x"}, "set REDIS_URL=redis://"),
        ((), {"DATABASE_URL": "postgres://a@127.0.0.1:9/x", "REDIS_URL": "unix:///tmp/x"}, "set REDIS_URL=redis://"),
        (("--name", "lab 2"), {}, "--name lab 2: must be 1 to 63 letters"),
    ],
)
def test_it_says_what_it_needs(tmp_path: Path, args: tuple[str, ...], env: dict[str, str], said: str) -> None:
    assert said in refused(tmp_path / "var", *args, **env)


Fleet = tuple[LiveSite, Joined, Cable]


@pytest.fixture(scope="module")
def fleet(site_maker: SiteMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A running site, a machine that hasn't joined yet, and the cable between that and the database.

    All that they say to the database and the broker passes through TLS, with certificates that they check.
    """
    if "TUNEBOARD_TEST_DATABASE_URL" not in os.environ:
        pytest.skip("several machines need PostgreSQL")
    site = site_maker.prepared()
    with ExitStack() as stack:
        authority = Authority(tmp_path_factory.mktemp("tls") / "ours")
        url = site.env["DATABASE_URL"]
        cable = stack.enter_context(Cable(socket_of(url)))

        def database(server: Path | int) -> str:
            front = stack.enter_context(Front(server, authority.server(), is_postgresql=True))
            return f"{by_tcp(url, front.port)}?sslmode=verify-full&sslrootcert={authority.ca}"

        broker = stack.enter_context(Broker(tmp_path_factory.mktemp("broker")))
        front = stack.enter_context(Front(broker.port, authority.server()))
        shared = {"REDIS_URL": f"{broker.url(front.port).replace('redis', 'rediss', 1)}?ssl_ca_certs={authority.ca}"}
        site.env |= {**shared, "DATABASE_URL": database(socket_of(url)), "TUNEBOARD_MACHINE": "lab-1"}
        machine = Joined(tmp_path_factory.mktemp("lab-2") / "var", database(cable.port))
        machine.env |= shared
        site.start()
        yield site, machine, cable
        machine.close()
        site.close()


@pytest.fixture
def joined(fleet: Fleet) -> Fleet:
    """The machine has joined."""
    site, machine, _ = fleet
    if not machine.running:
        machine.join("lab-2")
    machine.wait_for(lambda: "has joined the site" in machine.said(), 120)
    site.wait_for(lambda: len(site.processes("tuning.queue.worker")) >= 3)
    return fleet


def status_of(api: Callable[..., Any], run: int) -> str:
    return str(api("GET", f"/runs/{run}")["status"])


@pytest.mark.tvm
@pytest.mark.both_databases
def test_a_run_is_measured_by_both_machines(joined: Fleet) -> None:
    site, *_ = joined
    api = api_of(site)
    run = api("POST", "/runs", {**QUICK, "trials": 64, "min_repeat_ms": 100, "machines": 2, "machine": "lab-1"})
    site.wait_for(lambda: status_of(api, run["id"]) == "finished", 200)
    ended = {"left", "left_out", "lost"}
    site.wait_for(lambda: {one["state"] for one in api("GET", f"/runs/{run['id']}")["machines"]} <= ended)
    done = api("GET", f"/runs/{run['id']}")
    assert (done["machine"], done["machines_wanted"], done["trials_done"], done["error"]) == ("lab-1", 2, 64, None)
    first, second = done["machines"]
    assert (first["machine"], first["state"], second["machine"]) == ("lab-1", "left", "lab-2")
    # They are one machine in truth, and disturb each other.
    assert second["state"] == "left" or "at most 5% would do" in second["reason"]
    assert first["trials"] + second["trials"] == 64
    busy = {one["name"]: one["state"] for one in api("GET", "/machines")["items"]}
    assert busy["lab-1"] == "idle"


@pytest.mark.tvm
@pytest.mark.both_databases
def test_a_machine_joins_tunes_and_leaves(joined: Fleet, tmp_path: Path) -> None:
    site, machine, _ = joined
    api = api_of(site)
    env = {name: machine.env[name] for name in ("DATABASE_URL", "REDIS_URL")}
    assert "There is another machine called lab-2" in refused(tmp_path / "var", "--name", "lab-2", **env)
    run = api("POST", "/runs", {**QUICK, "machine": "lab-2"})
    assert run["chosen_machine"] == "lab-2"
    site.wait_for(lambda: status_of(api, run["id"]) == "finished", 120)
    done = api("GET", f"/runs/{run['id']}")
    assert (done["machine"], done["trials_done"]) == ("lab-2", 8)
    assert not any("dashboard.serve" in " ".join(each.cmdline()) for each in machine.processes())
    family = machine.processes()
    assert machine.stop() == 0
    assert [each for each in family if each.is_running()] == []
    assert machine.said().splitlines()[-2:] == ["Stopping.", "Stopped."]


@pytest.mark.tvm
@pytest.mark.both_databases
def test_a_killed_machines_run_is_interrupted_and_goes_on_when_it_is_back(joined: Fleet) -> None:
    site, machine, _ = joined
    api = api_of(site)
    run = api("POST", "/runs", {**QUICK, "trials": 4000, "machine": "lab-2"})["id"]
    site.wait_for(lambda: api("GET", f"/runs/{run}")["trials_done"] > 0, 120)
    family = machine.processes()
    assert machine.process
    machine.process.kill()
    machine.process.wait()
    psutil.wait_procs(family, timeout=30)
    site.wait_for(lambda: status_of(api, run) == "interrupted", 60)
    done = api("GET", f"/runs/{run}")["trials_done"]
    api("POST", f"/runs/{run}/resume")
    assert "waits until lab-2 is back" in api("GET", f"/runs/{run}")["waits"]
    machine.join("lab-2")
    site.wait_for(lambda: api("GET", f"/runs/{run}")["trials_done"] > done, 120)
    api("POST", f"/runs/{run}/stop")


@pytest.mark.rare
@pytest.mark.tvm
@pytest.mark.both_databases
def test_a_machine_without_its_network_measures_nothing_and_loses_its_run(joined: Fleet) -> None:
    site, machine, cable = joined
    api = api_of(site)
    run = api("POST", "/runs", {**QUICK, "trials": 4000, "machine": "lab-2"})["id"]
    site.wait_for(lambda: api("GET", f"/runs/{run}")["trials_done"] > 0, 120)
    cable.cut()
    try:
        site.wait_for(lambda: status_of(api, run) == "interrupted", 60)
        (folder,) = machine.var.glob(f"runs/{run}-*")
        records = (folder / "database_tuning_record.json").stat().st_size
        done = api("GET", f"/runs/{run}")["trials_done"]
    finally:
        cable.mend()
    machine.wait_for(lambda: not machine.processes("tuning.engines.meta_schedule", "--events-fd"), 60)
    assert (folder / "database_tuning_record.json").stat().st_size == records, "it measured on"
    assert api("GET", f"/runs/{run}")["trials_done"] == done
    machine.wait_for(lambda: machine.running)
