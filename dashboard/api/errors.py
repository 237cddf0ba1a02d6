"""The one shape of every error under `/api/`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from typing_extensions import NotRequired, TypedDict

from tuning.editing import Outdated
from tuning.models import WrittenDict
from tuning.services import Conflict, Invalid

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


def handle_errors(api: NinjaAPI) -> None:
    """Give what operations raise the one shape. What nobody foresaw is left to Django, which logs it."""

    @api.exception_handler(HttpError)
    def http_error(_request: HttpRequest, error: HttpError) -> HttpResponse:
        return error_response(error.status_code, str(error))

    @api.exception_handler(Http404)
    def not_found(_request: HttpRequest, _error: Http404) -> HttpResponse:
        return error_response(404)

    @api.exception_handler(Conflict)
    def conflict(_request: HttpRequest, error: Conflict) -> HttpResponse:
        return error_response(409, str(error))

    @api.exception_handler(Outdated)
    def outdated(_request: HttpRequest, error: Outdated) -> HttpResponse:
        return error_response(409, str(error), current=error.run.written())

    @api.exception_handler(Invalid)
    def invalid(_request: HttpRequest, error: Invalid) -> HttpResponse:
        return error_response(422, fields=error.fields)

    @api.exception_handler(ValidationError)
    def bad_parameter(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        return error_response(422, fields=dict(map(_field, error.errors)))


def _field(error: dict[str, Any]) -> tuple[str, str]:
    """The parameter's name without where it stood, and what pydantic says of it."""
    names = [str(part) for part in error["loc"] if not isinstance(part, int)]
    return names[-1], error["msg"]
