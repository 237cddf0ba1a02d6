"""Sends webhooks. Body, headers and signature follow the Standard Webhooks specification."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
from http.client import responses
from typing import Any
from urllib.parse import urlsplit

import msgspec
from django.conf import settings

from tuning.models import Delivery
from tuning.wording import internal_error

logger = logging.getLogger(__name__)
ANSWER_S = 10.0
"""Time limit for the whole exchange, from connecting to the end of the answer."""


class NotSent(Exception):
    """The address didn't accept the message; the text says why."""


def send(delivery: Delivery) -> str:
    """Make one attempt at a claimed delivery, store its outcome, and return the status that results."""
    if delivery.url not in settings.WEBHOOKS:
        delivery.give_up("This address is no longer listed in TUNEBOARD_WEBHOOKS.")
        return delivery.status
    try:
        delivery.succeeded(post(delivery))
    except NotSent as error:
        _fail(delivery, str(error))
    except Exception as error:
        _fail(delivery, internal_error(error))
        raise
    return delivery.status


def _fail(delivery: Delivery, reason: str) -> None:
    """Addresses are secrets, so the log names the host only."""
    if not delivery.failed(reason):
        return
    given_up = delivery.status == Delivery.Status.FAILED
    then = "it was given up" if given_up else f"the next attempt is at {delivery.due_at:%H:%M:%S %Z}"
    logger.warning("Webhook %s to %s: %s; %s.", delivery.pk, urlsplit(delivery.url).hostname, reason, then)


def post(delivery: Delivery) -> str:
    """Post the message of a claimed delivery and return the status of the answer, such as `204 No Content`. Raises `NotSent`.

    Receivers refuse timestamps that are off by minutes, so these are by the database's clock.
    """
    body = msgspec.json.encode(message(delivery))
    status = asyncio.run(_post(delivery.url, body, headers(delivery.key, int(delivery.tried_at.timestamp()), body)))
    words = f"{status} {responses.get(status, '')}".strip()
    if not 200 <= status < 300:
        raise NotSent(f"It answered {words}")
    return words


def message(delivery: Delivery) -> dict[str, Any]:
    """The body. Links are made only now, since only the process that sends knows the site's address."""
    data = dict(delivery.message)
    path, text = data.pop("path"), data.pop("text")
    url = f"{settings.SITE_URL}{path}" if settings.SITE_URL else None
    return {
        "type": delivery.kind,
        "timestamp": delivery.created_at.isoformat(),
        "text": f"{text} {url}" if url else text,
        "data": {**data, "url": url},
    }


def headers(key: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of a body, with a signature if there is a secret; `at` is in seconds since 1970."""
    named = {"Content-Type": "application/json", "webhook-id": key, "webhook-timestamp": str(at)}
    return named | ({"webhook-signature": signature(key, at, body)} if settings.WEBHOOK_SECRET else {})


def signature(key: str, at: int, body: bytes) -> str:
    """Version 1 of Standard Webhooks: HMAC-SHA256 of id, time and body."""
    secret = base64.b64decode(settings.WEBHOOK_SECRET.removeprefix("whsec_"))
    digest = hmac.new(secret, b"%s.%d.%s" % (key.encode(), at, body), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


async def _post(url: str, body: bytes, named: dict[str, str]) -> int:
    """Return the status; the answer's body is discarded. Redirects aren't followed: they lead where no admin pointed."""
    from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

    client = AsyncHTTPClient(force_instance=True)
    request = HTTPRequest(
        url,
        "POST",
        named,
        body,
        follow_redirects=False,
        connect_timeout=ANSWER_S,
        request_timeout=ANSWER_S,
        streaming_callback=lambda _piece: None,
        user_agent="Tuneboard",
    )
    try:
        return (await client.fetch(request, raise_error=False)).code
    except HTTPClientError as error:
        raise NotSent(error.message) from error
    except (OSError, ValueError) as error:
        raise NotSent(f"It can't be reached: {error}") from error
    finally:
        client.close()
