"""The shape of all errors under `/api/`."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from typing_extensions import NotRequired, TypedDict

from tuning.host.reachable import DISK_FULL
from tuning.models import WrittenDict
from tuning.validation import Busy

CODES = {
    400: ("bad_request", "The request is malformed."),
    401: ("unauthorized", "Sign in, or send a valid token: Authorization: Bearer TOKEN."),
    403: ("forbidden", "Your role doesn't allow this."),
    404: ("not_found", "Not found."),
    405: ("method_not_allowed", "Method not allowed; the Allow header lists those that are."),
    409: ("conflict", "The current state doesn't allow this."),
    413: ("too_large", "The body is too large."),
    415: ("unsupported_media_type", "Send JSON, with the header Content-Type: application/json."),
    422: ("invalid", "Some fields are invalid."),
    429: ("too_many", "You have too many of these at once. Try again in a minute."),
    500: ("server_error", "Internal error; see the server's log."),
    503: ("unavailable", "The database can't be reached at the moment. Try again soon."),
    507: ("disk_full", DISK_FULL),
}
"""The code and the default message of each status."""


class ErrorBody(TypedDict):
    """`fields` maps each field at fault to what is wrong with it.

    `current` is the run's current name and notes if an edit was based on an older revision.
    """

    code: str
    message: str
    fields: NotRequired[dict[str, str]]
    current: NotRequired[WrittenDict]


class ErrorDict(TypedDict):
    """The body of all responses with a status of 400 or more."""

    error: ErrorBody


def error_response(
    status: int,
    message: str | None = None,
    fields: Mapping[str, str] | None = None,
    current: WrittenDict | None = None,
) -> JsonResponse:
    """An error response; by default, with the status's own message."""
    code, default = CODES.get(status) or CODES[400 if status < 500 else 500]
    body: ErrorBody = {"code": code, "message": message or default}
    if fields is not None:
        body["fields"] = dict(fields)
    if current is not None:
        body["current"] = current
    return JsonResponse({"error": body}, status=status)


def come_back_later(request: HttpRequest, busy: Busy) -> HttpResponse:
    """What there is too much of, and when to try again: in the API's shape, or as a page."""
    status = status_of(busy)
    if request.path.startswith("/api/"):
        response: HttpResponse = error_response(status, str(busy))
    else:
        response = render(request, "busy.html", {"busy": busy}, status=status)
    response.headers["Retry-After"] = str(busy.retry_after_s)
    return response


def status_of(busy: Busy) -> int:
    return 429 if busy.own else 503
