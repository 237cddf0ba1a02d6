"""WebSockets of live pages: the state on connecting, then deltas. These are hints; the database is the source of truth."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import msgspec
from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import User
from django.db import Error
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import TimeoutError as RedisSilent

from dashboard.http.access import Seen
from dashboard.http.gate import TRY_AGAIN_LATER
from dashboard.http.middleware import user_of
from tuning.host import admission
from tuning.models import Compilation, Run
from tuning.notify.announce import compilation_group, group_name, watcher_group

from .accounts import VIEW

OUTAGES = (RedisAway, RedisSilent)
NOT_SIGNED_IN, DEACTIVATED, NO_SUCH_RUN, TOO_MANY = 4401, 4403, 4404, 4429
RECHECK_S = 30.0
"""How often the session is checked: after signing out or losing a role, updates stop after at most this time.

Where somebody else ends it, the user's sockets are told to check at once.
"""


class StateConsumer(AsyncWebsocketConsumer):
    """Forwards deltas; ignores what the browser sends."""

    rows: Seen[Any]
    """What can be watched."""
    user: User | None = None
    joined: tuple[str, ...] = ()
    user_id: int | None = None
    """Of the user who was let in."""
    accepted = ended = False
    place: admission.Ticket | None = None
    """Among the sockets that the user may have open."""
    check: asyncio.Task[None] | None = None

    def group_of(self, key: int) -> str:
        """The group that receives the deltas."""
        raise NotImplementedError

    def state_of(self, key: int) -> str | None:
        """The state as JSON; None if the user sees no such object."""
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """If Redis is down, send the state and tell the browser to reconnect later."""
        self.scope, self.base_send = scope, send
        try:
            await super().__call__(scope, receive, send)
        except OUTAGES:
            if not hasattr(self, "channel_name"):
                await receive()  # websocket.connect, which hasn't been read yet
            with suppress(StopConsumer):
                if not await self._may_view():
                    await self._end(None)
                await self._take_place()
                await self._show_state()
                await self._end(TRY_AGAIN_LATER)
        finally:
            if self.place:
                self.place.close()

    async def dispatch(self, message: Any) -> None:
        """Deltas skip Channels' dispatch, which closes old database connections in the thread that all sockets share."""
        if message["type"] == "run.delta":
            await self.run_delta(message)
        else:
            await super().dispatch(message)

    async def connect(self) -> None:
        """Join the group before reading the state, so that deltas in between are sent after it."""
        group = self.group_of(self._key)
        if not await self._may_view():
            await self._end(None)
        await self._take_place()
        assert self.user_id is not None, "who may view is somebody"
        self.joined = (group, watcher_group(self.user_id))
        for each in self.joined:
            await self.channel_layer.group_add(each, self.channel_name)
        await self._show_state()

    async def run_delta(self, message: dict[str, str]) -> None:
        """Forward the delta, even while the session is being checked: that takes seconds with hundreds of watchers."""
        if self.ended:
            return
        if time.monotonic() > self.checked_at + RECHECK_S and (self.check is None or self.check.done()):
            self.check = asyncio.create_task(self._recheck())
        await self.send(text_data=message["text"])

    async def session_check(self, _message: dict[str, str]) -> None:
        """The user was signed out somewhere, perhaps here."""
        if not self.ended:
            await self._recheck()

    async def disconnect(self, _code: int) -> None:
        if self.check is not None and self.check is not asyncio.current_task():
            self.check.cancel()
        with suppress(*OUTAGES):
            for each in self.joined:
                await self.channel_layer.group_discard(each, self.channel_name)

    @property
    def _key(self) -> int:
        return int(self.scope["url_route"]["kwargs"]["pk"])

    async def _show_state(self) -> None:
        if not self.accepted:
            await self.accept()
            self.accepted = True
        state = await database_sync_to_async(self.state_of)(self._key)
        if state is None:
            await self._end(NO_SUCH_RUN)
        else:
            await self.send(text_data=state)

    async def _take_place(self) -> None:
        """Close with a code of its own if the user, or all users, have too many sockets: before the handshake there is no reason."""
        self.place = self.place or admission.Ticket(admission.sockets, self.user_id)
        if not self.place.try_to_enter():
            await self.accept()
            await self._end(TOO_MANY)

    async def _may_view(self) -> bool:
        """Check the session again, since the socket stays open after signing out."""
        self.checked_at = time.monotonic()
        self.user = await database_sync_to_async(_viewer)(self.scope["cookies"])
        self.user_id = self.user.pk if self.user else self.user_id
        return self.user is not None

    def _is_seen(self) -> bool:
        return self.rows.seen_by(self.user).filter(pk=self._key).exists()

    async def _recheck(self) -> None:
        """Close the socket if the session is no longer allowed to view it."""
        try:
            if await self._may_view():
                code = None if await database_sync_to_async(self._is_seen)() else NO_SUCH_RUN
            else:
                code = await database_sync_to_async(_reason)(self.user_id)
        except Error:
            code = TRY_AGAIN_LATER
        if code is not None:
            await self._leave(code)

    async def _end(self, code: int | None) -> None:
        """Close and stop the consumer; during the handshake this means a 403."""
        await self._leave(code)
        raise StopConsumer

    async def _leave(self, code: int | None) -> None:
        self.ended = True
        await self.disconnect(code or 1000)
        await self.close(code)


class RunConsumer(StateConsumer):
    rows = Run.objects

    def group_of(self, key: int) -> str:
        return group_name(key)

    def state_of(self, key: int) -> str | None:
        """The run with its tasks."""
        rows = Run.objects.seen_by(self.user).select_related("network", "project", "created_by")
        if (run := rows.filter(pk=key).first()) is None:
            return None
        return msgspec.json.encode({"type": "state", "last": run.trials_done, "run": run.to_full_dict()}).decode()


class CompilationConsumer(StateConsumer):
    rows = Compilation.objects

    def group_of(self, key: int) -> str:
        return compilation_group(key)

    def state_of(self, key: int) -> str | None:
        """The compilation with its benchmarks."""
        compilation = Compilation.objects.seen_by(self.user).shown().filter(pk=key).first()
        if compilation is None:
            return None
        return msgspec.json.encode({"type": "state", "compilation": compilation.to_dict()}).decode()


def _viewer(cookies: dict[str, str]) -> User | None:
    """Whose session it is, if they may look at runs."""
    user = user_of("", cookies)
    return user if user is not None and user.has_perm(VIEW) else None


def _reason(user_id: int | None) -> int:
    """Why the user's socket is closed."""
    gone = user_id is not None and User.objects.filter(pk=user_id, is_active=False).exists()
    return DEACTIVATED if gone else NOT_SIGNED_IN
