"""ASGI middleware in front of Django and the consumers: finds the client, limits bodies, checks the origin of sockets."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dashboard.accounts import UPLOAD
from tuning.host import admission
from tuning.host.reachable import DATABASE_OUTAGE
from tuning.validation import Busy

from .errors import error_response, status_of
from .middleware import body_limit, is_upload, user_of

logger = logging.getLogger(__name__)
TRY_AGAIN_LATER = 1013
DISCARD = 32 << 20
"""A body that is too large is still read up to this size: a client that is cut off while sending never sees the reason."""
PAUSE_S = 0.2
"""How often an upload that waits looks for a free place."""
NOTHING = {"type": "http.request", "body": b"", "more_body": False}

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def behind_proxies(application: Any, proxies: list[str]) -> Any:
    """The application with each client's own address and scheme, as these proxies' headers say.

    Other headers of the kind are ignored: of X-Forwarded-For the last address counts that isn't a proxy's, since a client
    can write the earlier ones itself. The scheme is X-Forwarded-Proto, which the proxy must set.
    """
    return ProxyHeadersMiddleware(application, proxies) if proxies else application


class BodyGate:
    """Stops reading a body at the limit, since Django would spool all of it to disk before any of its own checks.

    A body whose Content-Length is too large, but not huge, is read and discarded. If a body without a Content-Length exceeds
    the limit, its header is added here, so that `dashboard.http.middleware.BodyLimit` refuses both.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Pass on the request and its body up to the limit. An upload waits for its turn, unread."""
        limit, uploader = await _limit(scope)
        if uploader is None or _content_length(scope) > limit:
            await self._limited(scope, receive, send, limit)
            return
        try:
            with admission.uploads.ticket(uploader) as ticket:
                await _turn_of(ticket)
                await self._limited(scope, receive, send, limit)
        except Busy as busy:
            if _content_length(scope) <= DISCARD and b"100-continue" not in _expectation(scope):
                await _discard(receive)
            await _send_busy(send, busy)

    async def _limited(self, scope: Any, receive: Receive, send: Send, limit: int) -> None:
        counted, over = 0, False
        scope = {**scope, "headers": list(scope["headers"])}
        discarded = limit < _content_length(scope) <= DISCARD and await _discard(receive)

        async def limited() -> Any:
            nonlocal counted, over, discarded
            if discarded:
                discarded = False
                return NOTHING
            if over:
                # Django is listening for a disconnect now, but would get the rest of the body.
                await asyncio.get_running_loop().create_future()
            message = await receive()
            counted += len(message.get("body", b""))
            if counted <= limit:
                return message
            over = True
            scope["headers"] = [h for h in scope["headers"] if h[0] != b"content-length"]
            scope["headers"].append((b"content-length", str(counted).encode()))
            return NOTHING

        await self.application(scope, limited, send)


async def _limit(scope: Any) -> tuple[int, int | None]:
    """Most bytes of the request's body, and who uploads, if it is an upload.

    Its limit is only for users who may upload; others could fill the disk.
    """
    limit = body_limit(scope["method"], scope["path"])
    usual = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    if not is_upload(scope["method"], scope["path"]):
        return usual, None
    # Only uploads need a query, which waits for the thread that all sockets share.
    uploader = await sync_to_async(_uploader)(scope)
    return (usual if uploader is None else limit), uploader


def _uploader(scope: Any) -> int | None:
    """The key of the user, if that user may upload."""
    headers = {name: value.decode("latin1") for name, value in scope["headers"]}
    try:
        user = user_of(headers.get(b"authorization", ""), parse_cookie(headers.get(b"cookie", "")))
        return user.pk if user is not None and user.has_perm(UPLOAD) else None
    except DATABASE_OUTAGE:
        return None
    finally:
        connection.close()


async def _turn_of(ticket: admission.Ticket) -> None:
    """Wait for the place without a thread. Raises `Busy`."""
    deadline = time.monotonic() + admission.PATIENCE_S
    while not ticket.try_to_enter():
        if time.monotonic() > deadline:
            raise ticket.refusal()
        await asyncio.sleep(PAUSE_S)


async def _send_busy(send: Send, busy: Busy) -> None:
    answer = error_response(status_of(busy), str(busy))
    headers = {
        b"content-type": b"application/json",
        b"content-length": str(len(answer.content)).encode(),
        b"retry-after": str(busy.retry_after_s).encode(),
        b"cache-control": b"no-store",
        b"connection": b"close",
    }
    await send({"type": "http.response.start", "status": answer.status_code, "headers": list(headers.items())})
    await send({"type": "http.response.body", "body": answer.content})


def _expectation(scope: Any) -> bytes:
    """What the client waits for before it sends the body."""
    expected: bytes = dict(scope["headers"]).get(b"expect", b"")
    return expected.lower()


def _content_length(scope: Any) -> int:
    """The Content-Length; 0 if there is none or it isn't a number."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


async def _discard(receive: Receive) -> bool:
    """Read the body without keeping it; False if the client disconnected."""
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body"):
            return True
    return False


class SocketGate:
    """Accepts only sockets that a page of this site has opened.

    Cookies are shared by all ports of a host, so pages of other programs on it would send the user's session too. Therefore
    the Origin must match the Host (or be one of CSRF_TRUSTED_ORIGINS), not just one of ALLOWED_HOSTS.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Refuse other origins with 403. While the database is down, tell the browser to try again later."""
        if not _is_same_origin(scope):
            await _refuse(receive, send)
            return
        try:
            await self.application(scope, receive, send)
        except DATABASE_OUTAGE as error:
            logger.warning("Closed a socket because the database can't be reached: %s", str(error).strip())
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})


async def _refuse(receive: Receive, send: Send) -> None:
    if (await receive())["type"] == "websocket.connect":
        await send({"type": "websocket.close"})


def _is_same_origin(scope: Any) -> bool:
    headers = {name: value.decode("latin1") for name, value in scope["headers"]}
    host, origin = headers.get(b"host", ""), headers.get(b"origin", "")
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        return False
    scheme = "https" if settings.HTTPS or scope.get("scheme") == "wss" else "http"
    return origin == f"{scheme}://{host}" or origin in settings.CSRF_TRUSTED_ORIGINS
