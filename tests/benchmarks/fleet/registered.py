"""A site with many machines and many queued runs: `python -m tests.benchmarks.fleet.registered FILE MACHINES RUNS`.

It fills its empty database, measures in its own process, and writes a `Registered` to the file.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import django
import msgspec
import psutil

from .web import Serving, web

TIMES = 7
"""How often each is done, after once to warm up."""
PEOPLE = 40
REQUESTS, AT_ONCE = 30, 4
LOAD = {"average": [0.5, 0.4, 0.3], "memory_free": 2**33, "disk_free": 2**38, "disk_total": 2**39, "cpus": 32}
CPUS = ("znver4", "skylake-avx512", "neoverse-v1")


class Page(msgspec.Struct, frozen=True):
    """A page of the site, without the network and the web server."""

    seconds: list[float]
    queries: int
    size: int
    """Of the HTML in bytes."""
    compressed: int


class Memory(msgspec.Struct, frozen=True):
    """Of a process, in bytes; shared pages are counted in parts (PSS)."""

    at_first: int
    after_pages: int
    """After many requests for both pages, some of them at the same time."""


class Registered(msgspec.Struct, frozen=True):
    """The figures; seconds of each repetition."""

    machines: int
    busy: int
    """How many of the machines tune."""
    queued: int
    machines_page: Page
    """With the queue below."""
    list_page: Page
    places_s: list[float]
    """Places of all queued runs, as the list needs them."""
    next_s: list[float]
    """A worker's choice of what it takes next."""
    web: Memory
    """Of the web process."""


def measure(machines: int, runs: int) -> Registered:
    """Fill the database, and measure."""
    from django.core.management import call_command
    from django.db.models.functions import Now
    from django.test.utils import override_settings

    from tests.world import make_user
    from tuning.models import Machine, Run

    busy = _fill(machines, runs)
    idle = Machine.objects.exclude(runs__status__in=Run.LIVE)[0]
    admin = make_user("admin")
    call_command("collectstatic", verbosity=0, interactive=False)
    with override_settings(ALLOWED_HOSTS=["testserver"]):

        def page(path: str) -> Page:
            Machine.objects.update(heartbeat_at=Now())
            return _page(path, admin)

        return Registered(
            machines=machines,
            busy=busy,
            queued=runs,
            machines_page=page("/machines/"),
            list_page=page("/runs/"),
            places_s=_seconds(Run.objects.places),
            next_s=_seconds(lambda: Run.objects.next_for("cpu", idle)),
            web=_memory(),
        )


def _fill(machines: int, runs: int) -> int:
    """Every second machine tunes; the queued runs are those of many people, and some may go to one machine only."""
    from tests.world import TARGET, make_machine, make_run, make_user, on
    from tuning.models import Needs, Run

    chosen = [
        make_machine(f"machine-{number}", cpu=CPUS[number % len(CPUS)], load=LOAD, cores=16)
        for number in range(1, machines + 1)
    ]
    busy = [on(machine, name=f"matmul on {machine}") for machine in chosen[::2]]
    people = [make_user("operator", f"person-{number}") for number in range(PEOPLE)]
    needs = Needs.objects.of(["x86_64", "avx2"], 2)
    model, random = make_run(target=TARGET), Random(1)
    values = {field.attname: getattr(model, field.attname) for field in Run._meta.concrete_fields}
    del values["id"]
    made = [
        Run(
            **values
            | {
                "name": f"queued {number}",
                "created_by_id": random.choice(people).pk,
                "needs_id": needs.pk,
                "priority": random.choice((-1, 0, 0, 0, 1)),
                "queued_at": model.queued_at + timedelta(seconds=number),
                "chosen_machine_id": random.choice(chosen).pk if number % 10 == 0 else None,
            }
        )
        for number in range(runs - 1)
    ]
    Run.objects.bulk_create(made, batch_size=1000)
    return len(busy)


def _page(path: str, user: Any) -> Page:
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client()
    client.force_login(user)

    def ask() -> bytes:
        answer = client.get(path)
        if answer.status_code != 200:
            raise ValueError(f"{path} answered {answer.status_code}")
        return bytes(answer.content)

    ask()
    with CaptureQueriesContext(connection) as captured:
        body = ask()
    queries = len(captured)  # Now: the next request forgets them.
    return Page(_seconds(ask), queries, len(body), len(gzip.compress(body, 6)))


def _memory() -> Memory:
    with web() as (serving, pid), ThreadPoolExecutor(AT_ONCE) as people:
        process = psutil.Process(pid)
        _get(serving, "/healthz")
        at_first = int(process.memory_full_info().pss)
        for _ in people.map(lambda path: _get(serving, path), ("/machines/", "/runs/") * REQUESTS):
            pass
        return Memory(at_first, int(process.memory_full_info().pss))


def _get(serving: Serving, path: str) -> None:
    asked = Request(f"http://127.0.0.1:{serving.port}{path}", headers={"Cookie": serving.cookie})
    with urlopen(asked) as answer:
        answer.read()


def _seconds(work: Callable[[], Any]) -> list[float]:
    found = []
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found[1:]


if __name__ == "__main__":
    django.setup()
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(measure(int(sys.argv[2]), int(sys.argv[3]))))
