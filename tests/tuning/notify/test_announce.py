"""Announcements reach watchers through the real channel layer, and tuning goes on without a broker."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from channels.layers import channel_layers, get_channel_layer

from tests.world import measured_run
from tuning.notify.announce import announce, announce_status, group_name

pytestmark = pytest.mark.django_db(transaction=True)


def delta(last: int) -> Any:
    return {"type": "delta", "after": last - 1, "last": last}


async def heard(group: str, count: int, *, say: Any) -> list[dict[str, Any]]:
    layer = get_channel_layer()
    assert layer is not None
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    await database_sync_to_async(say)()
    messages = [await asyncio.wait_for(layer.receive(channel), 10) for _ in range(count)]
    await layer.flush()
    return [json.loads(message["text"]) for message in messages]


def test_watchers_hear_each_delta_in_order() -> None:
    def say() -> None:
        for number in range(1, 51):
            announce(7, delta(number))

    messages = async_to_sync(heard)(group_name(7), 50, say=say)
    assert [message["last"] for message in messages] == list(range(1, 51))


def test_a_change_of_status_names_the_last_trial() -> None:
    run = measured_run()
    (message,) = async_to_sync(heard)(group_name(run.pk), 1, say=lambda: announce_status(run))
    assert (message["after"], message["last"], message["trials"]["number"]) == (3, 3, [])
    assert message["run"]["status"] == "running"


def test_a_broker_that_is_down_is_reported_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    away = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [f"unix://{tmp_path}/no"]}}
    settings.CHANNEL_LAYERS = {"default": away}
    monkeypatch.setattr(channel_layers, "backends", {})
    with caplog.at_level(logging.WARNING, logger="tuning.notify.announce"):
        for number in (1, 2, 3):
            announce(7, delta(number))
    assert len([record for record in caplog.records if record.name == "tuning.notify.announce"]) == 1
