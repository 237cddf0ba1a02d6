"""Answers that aren't made again for who has them: a run's trials are only ever added to."""

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
"""Another Tuneboard may draw the same trials otherwise, and it is another process."""


def etag_of(run: Run, version: str) -> str:
    """Of what is made of the run, and is the same as long as `version` is.

    Weak: JSON may be compressed, and a zip made anew has the same files and another time in it.
    """
    return f'W/"{sha256(f"{run.pk} {run.created_at} {version}".encode()).hexdigest()[:32]}"'


def columns(request: HttpRequest, run: Run, version: str, make: Callable[[], object]) -> HttpResponseBase:
    """What `make` gives of the run's trials, as JSON; 304 for who has it as of the last trial.

    Encoded as it is: thousands of numbers take msgspec a millisecond, and each layer that looks at them one by one several.
    """
    etag = etag_of(run, f"{PROCESS} {version} {run.tasks_total} {run.trials_done}")
    known = get_conditional_response(request, etag=etag)
    answer = known or HttpResponse(msgspec.json.encode(make()), content_type="application/json")
    answer.headers["ETag"] = etag
    answer.headers["Cache-Control"] = "private, no-cache"
    return answer
