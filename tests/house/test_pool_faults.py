"""One run on three machines while one of them, its network, the broker or the supervisor fails: every trial is measured, and counts once.

Their devices sleep, since the machines are one in truth; engines, members, workers, database and broker are those of every site.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fleet import Lab, lab
from tests.sites import SiteMaker

pytestmark = [pytest.mark.rare, pytest.mark.tvm, pytest.mark.both_databases]
ELSEWHERE_S = 15
"""What a killed machine had in hand is measured elsewhere within this time."""


@pytest.fixture(scope="module")
def machines(site_maker: SiteMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if "TUNEBOARD_TEST_DATABASE_URL" not in os.environ:
        pytest.skip("several machines need PostgreSQL")
    with lab(site_maker, tmp_path_factory.mktemp("lab"), "lab-2", "lab-3") as made:
        yield made


def begun(machines: Lab, trials: int, home: str = "lab-1") -> int:
    """A run that every machine measures for."""
    run = machines.launch_asleep(trials, home, "all")
    machines.until(lambda: all(machines.member(run, name).get("trials", 0) > 4 for name in NAMES), 200)
    return run


NAMES = ("lab-1", "lab-2", "lab-3")


def finished(machines: Lab, run: int, trials: int, *, uncounted: int = 0) -> None:
    """It ends with its budget, and each trial was measured by one machine. `uncounted`: so many may be missing in what machines have."""
    machines.until(lambda: machines.run(run)["status"] not in ("queued", "running"), 300)
    told = machines.run(run)
    assert (told["status"], told["trials_done"], told["error"]) == ("finished", trials, None)
    assert trials - uncounted <= sum(one["trials"] for one in told["machines"]) <= trials
    assert machines.lines(run) == trials
    machines.until(lambda: all(one["state"] in ("left", "lost") for one in machines.run(run)["machines"]))


def test_what_a_killed_machine_had_in_hand_is_measured_elsewhere(machines: Lab) -> None:
    run = begun(machines, 160)
    machines.machines["lab-3"].lose_power()
    at_least = machines.run(run)["trials_done"] + 30  # More than what was in the queue before what comes again.
    assert machines.until(lambda: machines.member(run, "lab-3")["state"] == "lost") < ELSEWHERE_S
    machines.until(lambda: machines.run(run)["trials_done"] >= at_least)
    finished(machines, run, 160)
    machines.join("lab-3")


def test_a_machine_whose_network_is_cut_takes_nothing_more_and_comes_back(machines: Lab) -> None:
    run = begun(machines, 400)
    machines.cut("lab-2")
    machines.until(lambda: machines.member(run, "lab-2")["state"] == "lost")
    measured = machines.member(run, "lab-2")["trials"]
    machines.wait(60)
    assert machines.member(run, "lab-2")["trials"] == measured
    machines.mend("lab-2")
    machines.until(lambda: machines.member(run, "lab-2")["trials"] > measured + 4, 90)
    finished(machines, run, 400)


def test_a_run_whose_own_machine_is_cut_off_waits_for_it_and_goes_on(machines: Lab) -> None:
    run = begun(machines, 300, home="lab-2")
    machines.cut("lab-2")
    machines.until(lambda: machines.run(run)["status"] == "interrupted", 60)
    done = machines.run(run)["trials_done"]
    assert {machines.member(run, name)["state"] for name in ("lab-1", "lab-3")} == {"left"}
    machines.resume_asleep(run)
    assert "waits until lab-2 is back" in machines.run(run)["waits"]
    machines.wait(30)
    machines.mend("lab-2")
    machines.until(lambda: machines.run(run)["trials_done"] > done, 120)
    finished(machines, run, 300)


def test_a_broker_that_is_gone_for_a_minute_and_comes_back_empty_costs_no_trial(machines: Lab) -> None:
    run = begun(machines, 200)
    machines.broker.stop()
    machines.wait(60)
    stood = machines.run(run)
    assert (stood["status"], {one["state"] for one in stood["machines"]}) == ("running", {"measuring"})
    machines.broker.start()
    finished(machines, run, 200)
    assert len(machines.run(run)["machines"]) == 3


def test_when_the_supervisor_dies_its_machines_are_free_and_the_run_goes_on_elsewhere(machines: Lab) -> None:
    run = begun(machines, 200, home="lab-2")
    machines.machines["lab-2"].kill("tuning.queue.worker", "device.cpu")
    machines.until(lambda: machines.run(run)["status"] == "interrupted", 60)
    shown = machines.run(run)["trials_done"]
    machines.until(lambda: {one["state"] for one in machines.api("GET", "/machines")["items"]} == {"idle"})
    assert machines.lines(run) == shown
    machines.resume_asleep(run, on="lab-3")
    finished(
        machines, run, 200, uncounted=shown
    )  # A killed supervisor hasn't stored the counts of its last two seconds.
    assert machines.run(run)["machine"] == "lab-3"
