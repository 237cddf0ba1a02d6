"""Any process of the site is killed, again and again, while runs tune: nothing is lost and nothing is left."""

from __future__ import annotations

import random
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pytest

from tests.faults.seeds import repeated_by, seed
from tests.faults.victims import Victims
from tests.live import LiveSite

pytestmark = pytest.mark.tvm
TRIALS = 24
RUN = {
    "network": "matmul",
    "network_options": {"n": 64},
    "trials": TRIALS,
    "trials_per_batch": 6,
    "strategy": "replay-trace",
    "min_repeat_ms": 50,
}
PATIENCE_S = 180
"""A worker's lease of half a minute, its restart after up to half a minute, and a busy machine."""
LIVE = {"queued", "running", "stopping"}


@dataclass
class Kills:
    """What was killed, and what followed: how often, and after how many seconds that was seen."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, outcome: str, after_s: float) -> None:
        self.seconds[kind, outcome].append(after_s)

    def __str__(self) -> str:
        rows = [
            f"{kind:28} {outcome:32} {len(after):5} {median(after):8.1f} {max(after):8.1f}"
            for (kind, outcome), after in sorted(self.seconds.items())
        ]
        return "\n".join([f"{'killed':28} {'what followed':32} times median s    max s", *rows])


class Chaos:
    """Keeps one run tuning and kills processes meanwhile."""

    def __init__(self, site: LiveSite, dice: random.Random) -> None:
        self.site = site
        self.dice = dice
        self.token = site.token("operator")
        self.victims = Victims(site)
        self.kills = Kills()
        self.runs: list[int] = []

    def call(self, method: str, path: str, body: Any = None, *, expected: int = 200) -> Any:
        """An answer of the API, however long the web process takes to come back."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                status, answer = self.site.api(method, path, body, token=self.token)
            except (OSError, ValueError):  # Refused, or cut off in the middle.
                assert time.monotonic() < deadline, "the web process doesn't come back"
                time.sleep(0.2)
                continue
            assert status == expected, (method, path, status, answer)
            return answer

    def one_live(self) -> Any:
        """A run that is queued or running: one of those so far, resumed if need be, or a new one."""
        unfinished = [run for run in map(self.get, self.runs) if run["status"] != "finished"]
        if not unfinished:
            self.runs.append(self.call("POST", "/runs", RUN, expected=201)["id"])
            return self.get(self.runs[-1])
        run = unfinished[0]
        if run["status"] not in LIVE:
            self.call("POST", f"/runs/{run['id']}/resume")
        return self.get(run["id"])

    def get(self, run: int) -> Any:
        return self.call("GET", f"/runs/{run}")

    def kill_one(self) -> None:
        """Kill a process, and wait until the run goes on or has ended."""
        before = self.one_live()
        time.sleep(self.dice.uniform(0, 4))
        victim = self.victims.one(self.dice)
        before = self.get(before["id"])
        victim.process.kill()
        killed = time.monotonic()
        after = self.wait_for_news(before)
        self.kills.add(victim.kind, _outcome(before, after), time.monotonic() - killed)

    def wait_for_news(self, before: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while (run := self.get(before["id"]))["trials_done"] == before["trials_done"]:
            if run["status"] not in LIVE or before["status"] not in LIVE:
                break
            assert time.monotonic() < deadline, f"nothing happens any more: {run}"
            time.sleep(0.2)
        return run

    def finish(self) -> None:
        """Resume runs until all have spent their budget."""
        deadline = time.monotonic() + PATIENCE_S * 2
        while any(self.get(run)["status"] != "finished" for run in self.runs):
            self.one_live()
            assert time.monotonic() < deadline, [self.get(run) for run in self.runs]
            time.sleep(0.5)

    def check(self) -> None:
        """Nothing was lost or counted twice, and no candidate was blamed."""
        for run in map(self.get, self.runs):
            trials = self.call("GET", f"/runs/{run['id']}/trials?limit=1000")
            assert trials["number"] == list(range(1, TRIALS + 1)), run["id"]
            assert [run["trials_done"], sum(task["trials"] for task in run["tasks"])] == [TRIALS, TRIALS]
            assert run["trials_failed"] == 0, self.call("GET", f"/runs/{run['id']}/errors")
            (folder,) = (path for path in self.site.var.glob(f"runs/{run['id']}-*") if path.is_dir())
            assert len((folder / "database_tuning_record.json").read_text().splitlines()) == TRIALS
            assert not (folder / "artifacts").exists()
        for path in ("/runs/", f"/runs/{self.runs[0]}/", "/machines/", "/library/"):
            assert self.page(path) == 200, path

    def page(self, path: str) -> int:
        cookies = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in self.site.cookies)
        with urllib.request.urlopen(urllib.request.Request(self.site.url + path, headers={"Cookie": cookies})) as page:
            return int(page.status)


def _outcome(before: Any, after: Any) -> str:
    if after["status"] in ("failed", "interrupted"):
        return f"run {after['status']}, resumed"
    return "run was queued, and began" if before["status"] == "queued" else "run went on"


@contextmanager
def chaos_in(site: LiveSite) -> Iterator[Chaos]:
    number = seed()
    site.start()
    chaos = Chaos(site, random.Random(number))
    try:
        yield chaos
    except Exception:
        print(f"{repeated_by(number)}\n{chaos.kills}")  # noqa: T201  shown with the failure
        raise
    print(f"Seed {number}\n{chaos.kills}")  # noqa: T201  shown by pytest -s


def kill(site: LiveSite, times: int) -> None:
    with chaos_in(site) as chaos:
        for _ in range(times):
            chaos.kill_one()
        chaos.finish()
        chaos.check()
        assert site.stop() == 0
        deadline = time.monotonic() + 15
        while (left := chaos.victims.left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == []


def test_a_few_kills_lose_nothing(new_site: LiveSite) -> None:
    kill(new_site, times=3)


@pytest.mark.rare
def test_a_hundred_kills_lose_nothing(new_site: LiveSite) -> None:
    kill(new_site, times=100)
