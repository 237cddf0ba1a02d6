"""Conditional responses: a run's trials are only added to, so the number of its last trial identifies a version."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256

import msgspec
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response

from tuning.models import Run

PROCESS = secrets.token_hex(8)
"""Part of each ETag, since a restarted web process may be another version, with other figures."""


def etag_of(run: Run, version: str) -> str:
    """The ETag of something made of the run that changes only with `version`."""
    return etag_for(f"{run.pk} {run.created_at} {version}")


def etag_for(version: str) -> str:
    """The ETag of something that changes only with `version`.

    Weak, since JSON may be compressed, and a zip that is generated again has other timestamps.
    """
    return f'W/"{sha256(version.encode()).hexdigest()[:32]}"'


def columns(request: HttpRequest, run: Run, version: str, make: Callable[[], object]) -> HttpResponseBase:
    """The result of `make` as JSON, or 304 if the client has it up to the run's last trial.

    Encoded right here: msgspec takes a millisecond for thousands of numbers, validating each of them several more.
    """
    etag = etag_of(run, f"{PROCESS} {version} {run.tasks_total} {run.trials_done}")
    known = get_conditional_response(request, etag=etag)
    answer = known or HttpResponse(msgspec.json.encode(make()), content_type="application/json")
    answer.headers["ETag"] = etag
    answer.headers["Cache-Control"] = "private, no-cache"
    return answer
