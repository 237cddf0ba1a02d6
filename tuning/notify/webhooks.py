"""Tells the addresses of the settings when a run or compilation has ended.

What is to be told is stored in the transaction that ends it and sent by jobs, which try again, so an address that is slow, away
or wrong costs no run anything. Message, headers and signature have the form of Standard Webhooks.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import time
from collections.abc import Mapping
from http.client import responses
from typing import Any
from urllib.parse import urlsplit

import msgspec
from django.conf import settings
from django.db import DatabaseError, transaction

from tuning.models import Compilation, Delivery, Run, iso, username
from tuning.models.leased import Leased

logger = logging.getLogger(__name__)
ANSWER_S = 10.0
"""For which an address may take to answer, all in all."""


class NotSent(Exception):
    """The address didn't take it; the text says why."""


def end(ending: Leased, *sources: str, to: str, mine: Mapping[str, Any] | None = None, **values: Any) -> bool:
    """Move a run or compilation to its end, and note whom to tell of it: both or neither. Says whether it moved."""
    with transaction.atomic():
        moved = ending.move(*sources, to=to, mine=mine, **values)
        if moved:
            note(ending)
    return moved


def note(ended: Leased) -> None:
    """Note whom to tell that this run or compilation has ended; part of the transaction that ends it."""
    if not settings.WEBHOOKS:
        return
    try:
        kind, content = _told(ended)
    except DatabaseError:
        raise  # Whether it ended is in doubt, too.
    except Exception:
        logger.exception("Nobody is told of the end of %r.", ended)
    else:
        _store(kind, content)


def note_test(asked_by: str) -> list[Delivery]:
    """A message to each address that says nothing but that it arrived; gives them, to be sent."""
    return _store("test", {"path": "/", "text": f"Tuneboard reaches this address. {asked_by} asked for this test."})


def send(delivery: Delivery) -> None:
    """Try a claimed delivery once, and store what came of it."""
    if delivery.url not in settings.WEBHOOKS:
        delivery.give_up("This address isn't among TUNEBOARD_WEBHOOKS any more.")
        return
    try:
        answer = post(delivery)
    except NotSent as trouble:
        _fail(delivery, str(trouble))
    except Exception as error:
        _fail(delivery, f"Tuneboard's own fault: {error!r}")
        raise
    else:
        delivery.succeeded(answer)


def _fail(delivery: Delivery, trouble: str) -> None:
    """The log names no address: it is a secret."""
    delivery.failed(trouble)
    given_up = delivery.status == Delivery.Status.FAILED
    then = "it was given up" if given_up else f"the next try is at {delivery.due_at:%H:%M:%S %Z}"
    logger.warning("Webhook %s to %s: %s; %s.", delivery.pk, urlsplit(delivery.url).hostname, trouble, then)


def post(delivery: Delivery) -> str:
    """Send it and give the answer's status in words. Raises `NotSent`."""
    body = msgspec.json.encode(message(delivery))
    answered = asyncio.run(_post(delivery.url, body, headers(delivery.key, int(time.time()), body)))
    words = f"{answered} {responses.get(answered, '')}".strip()
    if not 200 <= answered < 300:
        raise NotSent(f"It answered {words}")
    return words


def message(delivery: Delivery) -> dict[str, Any]:
    """The body; links are made as late as this, by the process that knows where the site is."""
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
    """What goes with a body, signed when there is a secret; `at` in seconds since 1970."""
    named = {"Content-Type": "application/json", "webhook-id": key, "webhook-timestamp": str(at)}
    return named | ({"webhook-signature": signature(key, at, body)} if settings.WEBHOOK_SECRET else {})


def signature(key: str, at: int, body: bytes) -> str:
    """That of Standard Webhooks, version 1: HMAC-SHA256 of id, time and body."""
    secret = base64.b64decode(settings.WEBHOOK_SECRET.removeprefix("whsec_"))
    digest = hmac.new(secret, b"%s.%d.%s" % (key.encode(), at, body), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def sweep() -> list[Delivery]:
    """Forget what nobody asks for any more; gives what is to be sent now."""
    Delivery.objects.outdated().delete()
    return list(Delivery.objects.due())


def _told(ended: Leased) -> tuple[str, dict[str, Any]]:
    """The kind of message and its content."""
    if isinstance(ended, Run):
        run = Run.objects.select_related("network", "created_by").get(pk=ended.pk)
        return f"run.{run.status}", _of_run(run)
    compilation = Compilation.objects.shown().get(pk=ended.pk)
    return f"compilation.{compilation.status}", _of_compilation(compilation)


def _store(kind: str, content: dict[str, Any]) -> list[Delivery]:
    return Delivery.objects.bulk_create(Delivery(url=url, kind=kind, message=content) for url in settings.WEBHOOKS)


async def _post(url: str, body: bytes, named: dict[str, str]) -> int:
    """The status of the answer, whose body nobody reads. No redirect is followed: it would go to an address that no admin set."""
    from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

    client = AsyncHTTPClient(force_instance=True)
    asked = HTTPRequest(
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
        return (await client.fetch(asked, raise_error=False)).code
    except HTTPClientError as error:
        raise NotSent(error.message) from error
    except (OSError, ValueError) as error:
        raise NotSent(f"It can't be reached: {error}") from error
    finally:
        client.close()


def _of_run(run: Run) -> dict[str, Any]:
    """Latencies and `elapsed_s` in seconds, times in ISO 8601."""
    return {
        "path": f"/runs/{run.pk}/",
        "text": _sentence(run),
        "id": run.pk,
        "name": run.name,
        "status": run.status,
        "finish_reason": run.finish_reason,
        "error": run.error,
        "network": run.network.name,
        "network_options": run.network.options,
        "target": run.target,
        "device": run.device,
        "trials_budget": run.trials_budget,
        "trials_done": run.trials_done,
        "trials_failed": run.trials_failed,
        "tasks_chosen": run.tasks_chosen,
        "tasks_measured": run.tasks_measured,
        "estimated_latency_s": run.estimated_latency_s,
        "elapsed_s": run.elapsed_s,
        "created_by": username(run.created_by),
        "created_at": run.created_at.isoformat(),
        "started_at": iso(run.started_at),
        "finished_at": iso(run.finished_at),
    }


def _sentence(run: Run) -> str:
    """What a chat shows of it."""
    measured = f"{run.trials_done} of {run.trials_budget} trials, {run.trials_failed} failed"
    estimate = "no estimate" if run.estimated_latency_s is None else f"{run.estimated_latency_s * 1e3:.4g} ms estimated"
    why = f" {run.error.strip().splitlines()[0]}" if run.error and run.error.strip() else ""
    return f"Run {run.pk} ({run.name}) {WORDS.get(run.status, run.status)}: {estimate}, {measured}.{why}"


WORDS = {"failed": "has failed", "stopped": "was stopped", "finished": "has finished", "interrupted": "was interrupted"}


def _of_compilation(compilation: Compilation) -> dict[str, Any]:
    """As the API shows it, but for what is long."""
    shown = compilation.to_dict()
    names = (
        *("id", "run", "run_name", "network", "target", "device", "source", "status", "error", "created_by"),
        *("created_at", "started_at", "finished_at", "coverage", "verified", "max_abs_error", "estimate_s"),
        *("measured_s", "speedup"),
    )
    said = f"Compilation {compilation.pk} of run {shown['run']} ({shown['run_name']}): {shown['status']}"
    measured = f", {shown['measured_s'] * 1e3:.4g} ms measured" if shown["measured_s"] is not None else ""
    return {
        "path": f"/compilations/{compilation.pk}/",
        "text": f"{said}{measured}.",
        **{name: shown[name] for name in names},  # type: ignore[literal-required]
    }
