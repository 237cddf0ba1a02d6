"""The one shape of every error under `/api/`."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import JsonResponse
from typing_extensions import NotRequired, TypedDict

from tuning.models import WrittenDict

CODES = {
    400: ("bad_request", "The request can't be understood."),
    401: ("unauthorized", "Sign in, or send a valid token: Authorization: Bearer TOKEN."),
    403: ("forbidden", "Your role doesn't allow this."),
    404: ("not_found", "There is no such thing here."),
    405: ("method_not_allowed", "This method isn't allowed here; Allow names those that are."),
    409: ("conflict", "The present state doesn't allow this."),
    413: ("too_large", "The body is too large."),
    415: ("unsupported_media_type", "Send JSON, with the header Content-Type: application/json."),
    422: ("invalid", "Some fields are invalid."),
    500: ("server_error", "Something went wrong here; the server's log says what."),
    503: ("unavailable", "The database can't be reached just now. Try again in a moment."),
}
"""Of each status: what programs read, and what people read when there is nothing better to say."""


class ErrorBody(TypedDict):
    """What went wrong; `fields` maps each field at fault to what is wrong with it.

    `current` is what the run has now, when the edit was of an older revision.
    """

    code: str
    message: str
    fields: NotRequired[dict[str, str]]
    current: NotRequired[WrittenDict]


class ErrorDict(TypedDict):
    """The body of every answer from 400 on."""

    error: ErrorBody


def error_response(
    status: int,
    message: str | None = None,
    fields: Mapping[str, str] | None = None,
    current: WrittenDict | None = None,
) -> JsonResponse:
    """An answer in the one shape; without a message, the status's own."""
    code, usual = CODES.get(status) or CODES[400 if status < 500 else 500]
    body: ErrorBody = {"code": code, "message": message or usual}
    if fields is not None:
        body["fields"] = dict(fields)
    if current is not None:
        body["current"] = current
    return JsonResponse({"error": body}, status=status)
