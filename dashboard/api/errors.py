"""Turn the exceptions of API operations into error responses."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from dashboard.http.errors import come_back_later, error_response
from tuning.actions.editing import Outdated
from tuning.beneath import NotRegular
from tuning.validation import Busy, Conflict, Invalid


def handle_errors(api: NinjaAPI) -> None:
    """Give all errors one shape. Unexpected exceptions are left to Django, which logs them."""
    api.add_exception_handler(PermissionDenied, _not_allowed)

    @api.exception_handler(HttpError)
    def http_error(_request: HttpRequest, error: HttpError) -> HttpResponse:
        return error_response(error.status_code, str(error))

    @api.exception_handler(Http404)
    def not_found(_request: HttpRequest, _error: Http404) -> HttpResponse:
        return error_response(404)

    @api.exception_handler(NotRegular)
    @api.exception_handler(Conflict)
    def conflict(_request: HttpRequest, error: Conflict | NotRegular) -> HttpResponse:
        return error_response(409, str(error))

    @api.exception_handler(Outdated)
    def outdated(_request: HttpRequest, error: Outdated) -> HttpResponse:
        return error_response(409, str(error), current=error.run.written())

    @api.exception_handler(Invalid)
    def invalid(_request: HttpRequest, error: Invalid) -> HttpResponse:
        return error_response(422, fields=error.fields)

    @api.exception_handler(Busy)
    def busy(request: HttpRequest, error: Busy) -> HttpResponse:
        return come_back_later(request, error)

    @api.exception_handler(ValidationError)
    def bad_parameter(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        return error_response(422, fields=dict(map(_field, error.errors)))


def _not_allowed(_request: HttpRequest, error: PermissionDenied | type[PermissionDenied]) -> HttpResponse:
    return error_response(403, str(error) or None)


def _field(error: dict[str, Any]) -> tuple[str, str]:
    """The parameter's name without its location, and pydantic's message."""
    names = [str(part) for part in error["loc"] if not isinstance(part, int)]
    return names[-1], error["msg"]
