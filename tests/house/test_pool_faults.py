"""One run on several machines while one of them, its network, its clock, the broker or the supervisor fails: every trial is measured, and counts once.

Their devices sleep, since the machines are one in truth; engines, members, workers, database and broker are those of every site.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.clocks import skewed
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


NAMES = ("lab-1", "lab-2", "lab-3")


def begun(machines: Lab, trials: int, home: str = "lab-1", names: tuple[str, ...] = NAMES) -> int:
    """A run that every machine measures for."""
    run = machines.launch_asleep(trials, home, "all")
    machines.until(lambda: all(machines.member(run, name).get("trials", 0) > 4 for name in names), 200)
    return run


def finished(machines: Lab, run: int, trials: int, *, uncounted: int = 0) -> None:
    """It ends with its budget, and each trial was measured by one machine. `uncounted`: so many may be missing in what machines have."""
    machines.until(lambda: machines.run(run)["status"] not in ("queued", "running"), 300)
    told = machines.run(run)
    assert (told["status"], told["trials_done"], told["error"]) == ("finished", trials, None)
    assert trials - uncounted <= sum(one["trials"] for one in told["machines"]) <= trials
    assert machines.lines(run) == trials
    machines.until(lambda: all(one["state"] in ("left", "lost") for one in machines.run(run)["machines"]))


def assert_times(machines: Lab, run: int, since: datetime) -> None:
    """The run and its trials were measured since then, and until now."""
    told = machines.run(run)
    started, ended = (datetime.fromisoformat(told[name]) for name in ("started_at", "finished_at"))
    assert since < started < ended < datetime.now(timezone.utc)
    at_s = machines.api("GET", f"/runs/{run}/trials?limit={told['trials_done']}")["at_s"]
    assert len(at_s) == told["trials_done"]
    assert all(0 < each <= (ended - started).total_seconds() for each in at_s)


def printed_first(machines: Lab, run: int) -> datetime:
    """The time of the first line that the run's pool printed."""
    text = machines.api("GET", f"/runs/{run}/console?after=0")["text"]
    (time,) = re.findall(r"^(\S+ \S+) \[INFO\] Pool: ", text, re.MULTILINE)[:1]
    return datetime.fromisoformat(f"{time}+00:00")


@pytest.mark.parametrize(("name", "ahead_s"), [("ahead", 3600), ("behind", -3600)])
def test_a_machine_whose_clock_is_an_hour_off_tunes_and_measures_for_others(
    machines: Lab, tmp_path: Path, name: str, ahead_s: int
) -> None:
    wrong = machines.add(name)
    wrong.env |= skewed(tmp_path, ahead_s)
    machines.join(name)
    for home in (name, "lab-1"):
        asked = datetime.now(timezone.utc)
        run = begun(machines, 160, home, (*NAMES, name))
        finished(machines, run, 160)
        assert machines.run(run)["machine"] == home
        assert_times(machines, run, since=asked)
        off_s = (printed_first(machines, run) - asked).total_seconds()
        assert abs(off_s - (ahead_s if home == name else 0)) < 1200, "the machine's own clock"
    wrong.stop()
    machines.api("POST", f"/machines/{name}/drain")
    machines.api("POST", f"/machines/{name}/forget")


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
