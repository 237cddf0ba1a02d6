"""The HTTP requests to measure, and how long the answers take."""

from __future__ import annotations

import gzip
import http.client
import json
import math
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from random import Random
from typing import Any, NamedTuple, get_args
from urllib.parse import urlencode, urlsplit

import msgspec

from tests.benchmarks.engine.sides import Broken
from tuning.reads.run_list import RunOrder

from .site import Site

UNKNOWN = "not recorded"
WARM_UP = 3
PAGE = 50
RANDOM_WINDOWS = 8


class Question(NamedTuple):
    """A path and its parameters. If paged, each request gets the next page, starting over at the end."""

    name: str
    path: str
    parameters: dict[str, str | float]
    paged: bool = False


class Answers(msgspec.Struct):
    """Milliseconds of each answer in order, and the bytes of the largest body as sent."""

    name: str
    ms: list[float]
    size: int

    def at(self, share: float) -> float:
        """The percentile by nearest rank."""
        rank = math.ceil(round(share * len(self.ms), 6))  # 0.07 * 100 is a little more than 7.
        return sorted(self.ms)[max(1, rank) - 1]


def slowest(answers: Sequence[Answers]) -> Answers:
    """The answers with the highest p95."""
    return max(answers, key=lambda each: each.at(0.95))


def of_curves(run: int) -> list[Question]:
    """The data of a run's charts."""
    return [Question("curves", f"/api/v1/runs/{run}/curves", {}), Question("figures", f"/runs/{run}/figures/", {})]


def of_trials(run: int, latencies: Sequence[float]) -> list[Question]:
    """Pages of trials; the ranges are taken from `latencies`, a sample of the run's."""
    ordered = sorted(latencies)
    fast, slow = ordered[len(ordered) // 20], ordered[len(ordered) * 3 // 4]
    filters: dict[str, dict[str, str | float]] = {
        "all": {},
        "of a task": {"task": 0},
        "improved": {"improved": "true"},
        "of the fastest 5 %": {"max": fast},
        "of the slowest 25 %": {"min": slow},
        "of a task and a range": {"task": 1, "min": fast, "max": slow},
    }
    wanted = {
        f"{name}, by {order}": {**chosen, "order": order}
        for name, chosen in filters.items()
        for order in ("number", "-number", "latency_s", "-latency_s", "task", "-task")
    }
    wanted["failed, by -number"] = {"failed": "true", "order": "-number"}
    wanted["failed, by task"] = {"failed": "true", "order": "task"}
    wanted["failed of a task, by number"] = {"failed": "true", "task": 2, "order": "number"}
    wanted["valid, by -number"] = {"failed": "false", "order": "-number"}
    path = f"/api/v1/runs/{run}/trials"
    return [Question(name, path, {**chosen, "limit": PAGE}, paged=True) for name, chosen in wanted.items()]


def of_scatter(run: int, trials: int, latencies: Sequence[float]) -> list[Question]:
    """Windows of the scatter: by number, by latency, by task, and random ones. `latencies` is a sample of the run's."""
    ordered = sorted(latencies)
    fast, middle, slow = (ordered[int(len(ordered) * share)] for share in (0.05, 0.5, 0.75))
    tenth = _part(trials, 0.6, 0.1)
    windows: dict[str, dict[str, str | float]] = {
        "all": {},
        "the middle half": _part(trials, 0.25, 0.5),
        "a tenth": tenth,
        "a hundredth": _part(trials, 0.5, 0.01),
        "the first tenth": _part(trials, 0.0, 0.1),
        "the fastest 5 %": {"max": fast},
        "the faster half": {"max": middle},
        "the slowest 25 %": {"min": slow},
        "the faster half of a tenth": {**tenth, "max": middle},
        "a task": {"task": 0},
        "the faster half of a task": {"task": 1, "max": middle},
    }
    random = Random(trials)
    for number in range(RANDOM_WINDOWS):
        first, last = sorted(random.randint(1, trials) for _ in range(2))
        least, most = sorted(random.choices(ordered, k=2))
        windows[f"at random {number + 1}"] = {"from": first, "to": last, "min": least, "max": most}
    path = f"/api/v1/runs/{run}/scatter"
    return [Question(name, path, window) for name, window in windows.items()]


def _part(trials: int, begin: float, share: float) -> dict[str, str | float]:
    first = int(trials * begin) + 1
    return {"from": first, "to": first + int(trials * share)}


def of_runs() -> list[Question]:
    """Pages of the run list, from the API and as HTML: every order, and filters that match most, few and no runs."""
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    filters: dict[str, dict[str, str | float]] = {
        "with a word": {"q": "synthetic 16"},
        "with a word in no run": {"q": "nowhere"},
        "finished": {"status": "finished"},
        "failed": {"status": "failed"},
        "of a network": {"network": "synthetic"},
        "with a tag of no run": {"tag": "nothing"},
        "of today": {"since": today, "until": today},
        "archived": {"show": "archived"},
        "deleted": {"show": "deleted"},
        "with a word, finished, by -estimated_latency_s": {
            "q": "synthetic",
            "status": "finished",
            "network": "synthetic",
            "since": today,
            "order": "-estimated_latency_s",
        },
    }
    wanted = {f"by {order}": {"order": order} for order in get_args(RunOrder)} | filters
    calls = [
        Question(f"runs {name}", "/api/v1/runs", {**one, "limit": PAGE}, paged=True) for name, one in wanted.items()
    ]
    return [*calls, *(Question(f"page of runs {name}", "/runs/", one) for name, one in wanted.items())]


class Asker:
    """One persistent connection, like a browser's."""

    def __init__(self, site: Site) -> None:
        self.headers = {"Cookie": site.cookie, "Accept-Encoding": "gzip"}
        self.connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=120)

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()

    def ask(self, question: Question, times: int) -> Answers:
        """Sends the request `times` times after a warm-up. Raises `Broken` for an error."""
        answers, cursor = Answers(question.name, [], 0), None
        for number in range(WARM_UP + times):
            began = time.perf_counter()
            size, body = self._get(question, cursor)
            taken_ms = (time.perf_counter() - began) * 1e3
            cursor = json.loads(body)["next"] if question.paged else None
            if number >= WARM_UP:
                answers.ms.append(taken_ms)
                answers.size = max(answers.size, size)
        return answers

    def latencies(self, run: int) -> list[float]:
        """A sample of the run's valid latencies, from the whole run."""
        _, body = self._get(Question("", f"/api/v1/runs/{run}/curves", {"points": 500}), None)
        return [latency for task in json.loads(body)["tasks"] for latency in task["scatter"]["latency_s"]]

    def columns(self, run: int, *names: str) -> list[tuple[Any, ...]]:
        """These columns of all trials of the run, ordered by number."""
        rows: list[tuple[Any, ...]] = []
        while True:
            after: dict[str, str | float] = {"after": len(rows), "limit": 1000}
            columns = json.loads(self._get(Question("", f"/api/v1/runs/{run}/trials", after), None)[1])
            if not columns["number"]:
                return rows
            rows += zip(*(columns[name] for name in names), strict=True)

    def _get(self, question: Question, cursor: Any) -> tuple[int, bytes]:
        """Returns the bytes transferred and the decompressed body."""
        parameters = question.parameters | ({"cursor": cursor} if cursor else {})
        path = f"{question.path}?{urlencode(parameters)}" if parameters else question.path
        self.connection.request("GET", path, headers=self.headers)
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise Broken(f"{path}: {response.status} {body[:300]!r}")
        packed = response.headers.get("Content-Encoding") == "gzip"
        return len(body), gzip.decompress(body) if packed else body
