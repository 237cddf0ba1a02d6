"""The socket of a run's page: its state on joining, then what changes. A hint only: the database is the truth."""

from __future__ import annotations

import time
from contextlib import suppress
from importlib import import_module
from typing import Any

import msgspec
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import TimeoutError as RedisSilent

from tuning.announce import group_name
from tuning.models import Run

from .accounts import VIEW
from .gate import TRY_AGAIN_LATER

OUTAGES = (RedisAway, RedisSilent)
NOT_SIGNED_IN, NO_SUCH_RUN = 4401, 4404
RECHECK_S = 30.0
"""A session that ended, or a role that was taken away, shows no more than this long of a run."""


class RunConsumer(AsyncWebsocketConsumer):
    """Forwards a run's deltas. What the browser sends is ignored."""

    group: str | None = None
    accepted = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Without Redis there is nothing to forward: give the state and have the browser come back."""
        self.scope, self.base_send = scope, send
        try:
            await super().__call__(scope, receive, send)
        except OUTAGES:
            if not hasattr(self, "channel_name"):
                await receive()  # websocket.connect, which nobody has read yet
            with suppress(StopConsumer):
                if not await self._may_view():
                    await self._end(None)
                await self._show_state()
                await self._end(TRY_AGAIN_LATER)

    async def connect(self) -> None:
        """Join first: what is announced between joining and reading the state waits, and is sent after it."""
        run_id = self.scope["url_route"]["kwargs"]["pk"]
        if not await self._may_view():
            await self._end(None)
        await self.channel_layer.group_add(group_name(run_id), self.channel_name)
        self.group = group_name(run_id)
        await self._show_state()

    async def run_delta(self, message: dict[str, str]) -> None:
        """Forward the delta as it is."""
        if time.monotonic() > self.checked_at + RECHECK_S and not await self._may_view():
            await self._end(NOT_SIGNED_IN)
        await self.send(text_data=message["text"])

    async def disconnect(self, _code: int) -> None:
        """Leave the group."""
        if self.group:
            with suppress(*OUTAGES):
                await self.channel_layer.group_discard(self.group, self.channel_name)

    async def _show_state(self) -> None:
        if not self.accepted:
            await self.accept()
            self.accepted = True
        state = await database_sync_to_async(_state)(self.scope["url_route"]["kwargs"]["pk"])
        if state is None:
            await self._end(NO_SUCH_RUN)
        else:
            await self.send(text_data=state)

    async def _may_view(self) -> bool:
        """Read from the session anew: the socket outlives sign-out."""
        self.checked_at = time.monotonic()
        store = import_module(settings.SESSION_ENGINE).SessionStore(self.scope["session"].session_key)
        user: Any = await get_user({**self.scope, "session": store})
        return bool(await database_sync_to_async(user.has_perm)(VIEW))

    async def _end(self, code: int | None) -> None:
        """Close for good; before the handshake ended that is a 403."""
        await self.disconnect(code or 1000)
        await self.close(code)
        raise StopConsumer


def _state(run_id: int) -> str | None:
    run = Run.objects.select_related("network", "created_by").filter(pk=run_id).first()
    if run is None:
        return None
    return msgspec.json.encode({"type": "state", "last": run.trials_done, "run": run.to_full_dict()}).decode()
