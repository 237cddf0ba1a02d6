"""Middleware of every request: sessions, body limits, sign-in, the API's error shape, and compression."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import re_accepts_gzip
from django.utils.cache import patch_vary_headers
from django.utils.decorators import sync_only_middleware
from django.utils.deprecation import MiddlewareMixin

from dashboard.accounts import VIEW
from dashboard.http.errors import come_back_later, error_response
from dashboard.models import ApiToken, Person
from tuning.actions.editing import TOO_LONG
from tuning.host.admission import asking
from tuning.validation import Busy

API = "/api/"
UPLOADS = (f"{API}v1/networks", f"{API}v1/imports")
"""The paths that models and logs are uploaded to."""
NOTES = re.compile(rf"PATCH {API}v1/runs/\d+|POST /runs/notes/preview/")
"""Requests whose body is large only because of notes."""
ENVELOPE = 1 << 20
"""Most bytes of a multipart body besides the file."""
COMPRESSED_FROM = 200
"""Bytes; shorter responses aren't compressed."""
QUICK = 1
"""zlib's fastest level."""
UNNEEDED = ("camera", "display-capture", "geolocation", "gyroscope", "microphone", "payment", "usb")
"""What no page may ask the browser for."""
PERMISSIONS = ", ".join(f"{feature}=()" for feature in UNNEEDED)


def body_limit(method: str, path: str) -> int:
    """Most bytes of the request's body."""
    if is_upload(method, path):
        return (int(settings.UPLOAD_MB) << 20) + ENVELOPE
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


def is_upload(method: str, path: str) -> bool:
    return method == "POST" and path in UPLOADS


class Sessions(SessionMiddleware):
    """Django's, except that an unknown session's cookie isn't deleted: the answer to another tab may have replaced it meanwhile.

    With a new password a session gets a new cookie. What was asked with the old one may be answered later, and would delete the new one.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Signing out deletes the cookie: that modifies the session."""
        session = request.session
        if settings.SESSION_COOKIE_NAME in request.COOKIES and session.is_empty() and not session.modified:
            patch_vary_headers(response, ("Cookie",))
            return response
        return super().process_response(request, response)


class ApiErrors(MiddlewareMixin):
    """Gives all errors under `/api/` their shape, including Django's own. Must be first, to see all of them."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Replace the body of an error that isn't JSON, and keep its headers."""
        if response.status_code < 400 or not request.path.startswith(API) or not isinstance(response, HttpResponse):
            return response
        if response.headers.get("Content-Type") != "application/json":
            shaped = error_response(response.status_code)
            response.content = shaped.content
            response.headers["Content-Type"] = "application/json"
            response.headers["Content-Length"] = str(len(shaped.content))
        return response


class CompressedJson(MiddlewareMixin):
    """Compresses JSON, which reduces charts to a third. Pages aren't compressed, nor files, which mostly are already.

    Django's GZipMiddleware takes six times as long for 5 % less, and adds random bytes against attacks that guess secrets
    from sizes; JSON responses contain no secrets.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress a JSON response if the client accepts it."""
        kind = response.headers.get("Content-Type", "")
        if not isinstance(response, HttpResponse) or not kind.startswith("application/json"):
            return response
        if response.status_code >= 400 or len(response.content) < COMPRESSED_FROM:
            return response
        patch_vary_headers(response, ("Accept-Encoding",))
        if re_accepts_gzip.search(request.headers.get("Accept-Encoding", "")):
            response.content = gzip.compress(response.content, QUICK, mtime=0)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Content-Length"] = str(len(response.content))
        return response


class Private(MiddlewareMixin):
    """Keeps what the site shows out of caches, and its pages away from devices that they don't need. Static files come before it."""

    def process_response(self, _request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        return response


class BodyLimit(MiddlewareMixin):
    """Refuses bodies above their limit before they are read."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """413, by the announced length or, for a body of unannounced length, by what the gate counted."""
        limit = body_limit(request.method or "", request.path)
        if int(request.META.get("CONTENT_LENGTH") or 0) <= limit:
            return None
        fields = {"notes": TOO_LONG} if NOTES.fullmatch(f"{request.method} {request.path}") else None
        text = " ".join([f"The body is too large: at most {limit} bytes are allowed.", *(fields or {}).values()])
        if request.path.startswith(API):
            return error_response(413, text, fields)
        return HttpResponse(text, status=413, content_type="text/plain")


class SignInRequired(LoginRequiredMiddleware):
    """Requires a signed-in user with a role, except for views marked `login_not_required`."""

    def process_view(
        self, request: HttpRequest, view_func: Any, view_args: tuple[Any, ...], view_kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        """Redirect to the sign-in page, or return 401 from the API; 403 for users without a role."""
        if request.path.startswith(API):
            _use_token(request)
        asking.set(request.user.pk)
        refusal = super().process_view(request, view_func, view_args, view_kwargs)
        if refusal is None and getattr(view_func, "login_required", True) and not request.user.has_perm(VIEW):
            raise PermissionDenied
        if refusal is None and isinstance(request.user, User):
            Person.saw(request.user)
        return refusal

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> Any:
        """Of the API, only the OpenAPI page redirects to the sign-in page."""
        match = request.resolver_match
        if not request.path.startswith(API) or (match and match.url_name == "openapi-view"):
            return super().handle_no_permission(request, view_func)
        refusal = error_response(401)
        refusal.headers["WWW-Authenticate"] = 'Bearer realm="Tuneboard"'
        return refusal


class ComeBackLater(MiddlewareMixin):
    """Says when too much is going on already, and when to try again."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """429 if it is of the user's own making, otherwise 503, where no view said it in a better place."""
        return come_back_later(request, error) if isinstance(error, Busy) else None


@sync_only_middleware
def in_one_thread(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Does nothing, but must be last: since it isn't async, all middleware runs in the request's thread.

    Otherwise Django would switch threads for each step of each middleware.
    """
    return get_response


def bearer_token(authorization: str) -> str | None:
    """The token in the header `Authorization`; None if it has none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def user_of(authorization: str, cookies: dict[str, str]) -> User | None:
    """The user of a token or session cookie, for code that has no request."""
    token = bearer_token(authorization)
    if token is not None:
        return ApiToken.objects.owner_of(token)
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookies.get(settings.SESSION_COOKIE_NAME))
    user = get_user(request)
    return user if isinstance(user, User) else None


def _use_token(request: HttpRequest) -> None:
    """A token replaces the session, even if it is invalid, so that the script notices."""
    token = bearer_token(request.headers.get("Authorization", ""))
    if token is None:
        return
    owner = ApiToken.objects.owner_of(token)
    request.user = owner or AnonymousUser()
    request.by_token = owner is not None  # type: ignore[attr-defined]
