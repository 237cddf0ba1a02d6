"""The disk of one machine is full: its run says so, it takes nothing more, and the run goes on elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disks import filled, small_disk
from tests.fleet import QUICK, Lab, lab
from tests.sites import SiteMaker

pytestmark = [pytest.mark.rare, pytest.mark.tvm, pytest.mark.both_databases]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Where lab-2 keeps its files."""
    with small_disk(tmp_path / "disk", mib=160) as place:
        yield place


@pytest.fixture
def machines(site_maker: SiteMaker, tmp_path: Path, disk: Path) -> Iterator[Lab]:
    if "TUNEBOARD_TEST_DATABASE_URL" not in os.environ:
        pytest.skip("several machines need PostgreSQL")
    with lab(site_maker, tmp_path) as made:
        made.add("lab-2", disk / "var")
        made.join("lab-2")
        yield made


def of(machines: Lab, name: str) -> dict[str, Any]:
    return next(one for one in machines.api("GET", "/machines")["items"] if one["name"] == name)


def test_a_run_on_a_full_disk_fails_there_and_goes_on_elsewhere(machines: Lab, disk: Path) -> None:
    machines.api("POST", "/machines/lab-1/drain")
    run = machines.api("POST", "/runs", {**QUICK, "trials": 40, "min_repeat_ms": 100})["id"]
    machines.until(lambda: machines.run(run)["trials_done"] > 4, 120)
    with filled(disk):
        machines.until(lambda: machines.run(run)["status"] == "failed")
        failed = machines.run(run)
        assert failed["error"].startswith("On lab-2: The disk with the run's files is full: ")
        assert machines.lines(run) == failed["trials_done"]
        machines.until(lambda: of(machines, "lab-2")["state"] == "waiting")
        assert of(machines, "lab-2")["trouble"].startswith("Its disk is full: 0 MiB are free in its TUNEBOARD_VAR")
        machines.machines["lab-2"].wait_for(lambda: "Its disk is full" in machines.machines["lab-2"].said())
        machines.api("POST", f"/runs/{run}/resume")
        assert "lab-2 has space again: Its disk is full" in machines.run(run)["waits"]
        machines.api("POST", "/machines/lab-1/resume")
        machines.until(lambda: machines.run(run)["status"] == "finished", 200)
        done = machines.run(run)
        assert (done["machine"], done["trials_done"], machines.lines(run)) == ("lab-1", 40, 40)
    machines.until(lambda: of(machines, "lab-2")["state"] == "idle")
