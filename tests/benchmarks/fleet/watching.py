"""A run's watchers, in a process of their own: `python -m tests.benchmarks.fleet.watching RUN COUNT`.

They are WebSockets, as browsers open them. It reads a line with where the site is `Serving`, says `ready`, and notes when the first one hears of
each trial.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from .stamps import Stamps
from .web import Serving


class Columns(msgspec.Struct):
    """What is read of a delta's trials."""

    number: list[int]


class Message(msgspec.Struct):
    """What is read of a state or delta."""

    trials: Columns | None = None


async def watch(run: int, count: int, serving: Serving) -> None:
    """Until it is ended."""
    site = f"127.0.0.1:{serving.port}"
    headers = {"Cookie": serving.cookie}
    async with AsyncExitStack() as stack:
        first, *others = [
            await stack.enter_async_context(
                connect(
                    f"ws://{site}/ws/runs/{run}/",
                    origin=Origin(f"http://{site}"),
                    additional_headers=headers,
                    compression=None,
                )
            )
            for _ in range(count)
        ]
        await first.recv()  # The state on joining.
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.gather(_note(first), *map(_listen, others))


async def _note(watcher: ClientConnection) -> None:
    stamps = Stamps()
    async for text in watcher:
        message = msgspec.json.decode(text, type=Message)
        for number in message.trials.number if message.trials else ():
            stamps.add("announced", str(number))


async def _listen(watcher: ClientConnection) -> None:
    async for _ in watcher:
        pass


if __name__ == "__main__":
    asyncio.run(watch(int(sys.argv[1]), int(sys.argv[2]), msgspec.json.decode(sys.stdin.readline(), type=Serving)))
