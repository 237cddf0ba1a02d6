"""What stands before Django and the consumers: limits and checks that only the ASGI server's own messages allow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host

from dashboard.accounts import UPLOAD

from .middleware import body_limit, user_of
from .outages import DATABASE_OUTAGE

logger = logging.getLogger(__name__)
TRY_AGAIN_LATER = 1013
HEARD_OUT = 32 << 20
"""Bytes of a body that is too large: up to these it is let pass by, since who is cut off in the middle hears no reason."""
NOTHING = {"type": "http.request", "body": b"", "more_body": False}

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class BodyGate:
    """Stops reading a body at the limit, since Django would spool all of it to disk before any of its own checks.

    One that is announced as too large, but not as huge, passes by unkept. A body of unannounced length that went over gets
    its length announced here, so that one place refuses both: `dashboard.http.middleware.BodyLimit`.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Pass the request on, with at most the limit of its body."""
        counted, over, limit = 0, False, await _limit(scope)
        scope = {**scope, "headers": list(scope["headers"])}
        passed_by = limit < _announced(scope) <= HEARD_OUT and await _pass_by(receive)

        async def limited() -> Any:
            nonlocal counted, over, passed_by
            if passed_by:
                passed_by = False
                return NOTHING
            if over:
                # Django listens for a disconnect now. What it would hear is the rest of the body.
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


async def _limit(scope: Any) -> int:
    """Bytes of the request's body; an upload's only for who may upload, since others would fill the disk."""
    limit = body_limit(scope["method"], scope["path"])
    usual = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    # Only uploads wait for the thread in which the sockets' queries are made.
    return limit if limit == usual or await sync_to_async(_may_upload)(scope) else usual


def _may_upload(scope: Any) -> bool:
    headers = {name: value.decode("latin1") for name, value in scope["headers"]}
    try:
        user = user_of(headers.get(b"authorization", ""), parse_cookie(headers.get(b"cookie", "")))
        return user is not None and user.has_perm(UPLOAD)
    except DATABASE_OUTAGE:
        return False
    finally:
        connection.close()


def _announced(scope: Any) -> int:
    """The body's length as its sender says; 0 when it doesn't, or not in figures."""
    said = dict(scope["headers"]).get(b"content-length", b"")
    return int(said) if said.isdigit() else 0


async def _pass_by(receive: Receive) -> bool:
    """Read the body and keep nothing; whether it came whole."""
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body"):
            return True
    return False


class SocketGate:
    """Lets in sockets that a page of this very site opened.

    Cookies know no ports, so another program's page on the same host would come with the user's session: the Origin
    must be the Host that was asked for (or one of CSRF_TRUSTED_ORIGINS), not merely one of ALLOWED_HOSTS.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Refuse with 403 at the handshake; when the database is away, have the browser come back."""
        if not _own_page(scope):
            await _refuse(receive, send)
            return
        try:
            await self.application(scope, receive, send)
        except DATABASE_OUTAGE as error:
            logger.warning("A socket was turned away, since the database can't be reached: %s", str(error).strip())
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})


async def _refuse(receive: Receive, send: Send) -> None:
    if (await receive())["type"] == "websocket.connect":
        await send({"type": "websocket.close"})


def _own_page(scope: Any) -> bool:
    headers = {name: value.decode("latin1") for name, value in scope["headers"]}
    host, origin = headers.get(b"host", ""), headers.get(b"origin", "")
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        return False
    scheme = "https" if settings.HTTPS or scope.get("scheme") == "wss" else "http"
    return origin == f"{scheme}://{host}" or origin in settings.CSRF_TRUSTED_ORIGINS
