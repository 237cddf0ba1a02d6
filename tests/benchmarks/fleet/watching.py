"""A watcher of a run, in a process of its own: `python -m tests.benchmarks.fleet.watching RUN`.

It joins the channel layer's group as a browser's socket does, says `ready`, and notes when it hears of each trial.
"""

from __future__ import annotations

import asyncio
import sys

import django
import msgspec
from channels.layers import get_channel_layer

from .stamps import Stamps


class Columns(msgspec.Struct):
    """What is read of a delta's trials."""

    number: list[int]


class Message(msgspec.Struct):
    """What is read of a delta."""

    trials: Columns | None = None


async def watch(run: int) -> None:
    """Until it is ended."""
    from tuning.notify.announce import group_name

    stamps, layer = Stamps(), get_channel_layer()
    assert layer is not None
    channel = await layer.new_channel()
    await layer.group_add(group_name(run), channel)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        message = msgspec.json.decode((await layer.receive(channel))["text"], type=Message)
        for number in message.trials.number if message.trials else ():
            stamps.add("announced", str(number))


if __name__ == "__main__":
    django.setup()
    asyncio.run(watch(int(sys.argv[1])))
