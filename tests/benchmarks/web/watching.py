"""Many watchers of one run: whether each got every trial, and how soon."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress

import msgspec
from django.conf import settings
from websockets.asyncio.client import ClientConnection, connect

from tests.benchmarks.engine.sides import Broken

from .site import Site

TOGETHER = 25
"""Concurrent handshakes."""
PATIENCE_S = 60.0


class Columns(msgspec.Struct):
    """The columns of a delta that are read here."""

    number: list[int]
    at_s: list[float]


class Message(msgspec.Struct):
    """The fields of a delta or state that are read here."""

    type: str
    last: int
    trials: Columns | None = None


class Watched(msgspec.Struct):
    """What the watchers received; `ms` counts from passing a trial to the recorder until a socket delivers it."""

    sockets: int
    trials: int
    missed: int
    """Missing trials, summed over all watchers."""
    ms: list[float]


class Recorded(msgspec.Struct):
    """Measured by the recorder's process."""

    seconds: float
    trials_a_second: float


def record_live(site: Site, trials: int, batch: int) -> Recorded:
    """The live path at full speed, with no watchers."""
    with recorder(site, trials, batch, 0.0) as process:
        line(process)
        tell(process)
        return msgspec.json.decode(line(process), type=Recorded)


def watch(site: Site, sockets: int, deltas: int, batch: int) -> Watched:
    """Opens sockets on a run that sends ten deltas of `batch` trials per second. Raises `Broken`."""
    with recorder(site, deltas * batch, batch, 0.1) as process:
        run = json.loads(line(process))
        seen = asyncio.run(_watch(site, run, sockets, deltas * batch, process))
        line(process)
        return seen


async def _watch(site: Site, run: int, sockets: int, trials: int, process: subprocess.Popen[str]) -> Watched:
    url = f"{site.url.replace('http', 'ws', 1)}/ws/runs/{run}/"
    seen = Watched(sockets, trials, 0, [])
    async with AsyncExitStack() as stack:
        gate = asyncio.Semaphore(TOGETHER)

        async def join() -> ClientConnection:
            async with gate:
                headers = {"Cookie": site.cookie}
                return await stack.enter_async_context(
                    connect(url, origin=site.url, additional_headers=headers, compression=None, open_timeout=PATIENCE_S)  # type: ignore[arg-type]
                )

        watchers = await asyncio.gather(*(join() for _ in range(sockets)))
        tell(process)
        await asyncio.gather(*(_follow(watcher, trials, seen) for watcher in watchers))
    return seen


async def _follow(watcher: ClientConnection, trials: int, seen: Watched) -> None:
    numbers: set[int] = set()
    with suppress(asyncio.TimeoutError):  # What is missing is counted.
        await asyncio.wait_for(_read(watcher, trials, numbers, seen.ms), PATIENCE_S)
    seen.missed += trials - len(numbers)


async def _read(watcher: ClientConnection, trials: int, numbers: set[int], ms: list[float]) -> None:
    async for text in watcher:
        now = time.time()
        message = msgspec.json.decode(text, type=Message)
        if message.trials is not None:
            numbers.update(message.trials.number)
            ms.extend((now - at_s) * 1e3 for at_s in message.trials.at_s)
        if message.last >= trials:
            return


def recorder(site: Site, trials: int, batch: int, pause_s: float, *, spread: bool = False) -> subprocess.Popen[str]:
    """A process that records a synthetic run live: `tell` it to start and to end, and read each `line` it prints."""
    command = [sys.executable, "-m", "tests.benchmarks.web.recording", str(trials), str(batch), str(pause_s)]
    command += ["--spread"] if spread else []
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=site.env, cwd=settings.BASE_DIR, stdin=pipe, stdout=pipe, text=True)


def tell(process: subprocess.Popen[str]) -> None:
    """Lets the recorder continue."""
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


def line(process: subprocess.Popen[str]) -> str:
    """The recorder's next line of JSON. Raises `Broken` if it has ended."""
    assert process.stdout
    said: str = process.stdout.readline()
    if not said:
        raise Broken("The recording process ended early; its output is above.")
    return said
