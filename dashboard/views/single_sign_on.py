"""Signing in with the OpenID provider: sending the browser there, and taking what it brings back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from mozilla_django_oidc.views import (
    OIDCAuthenticationCallbackView,
    OIDCAuthenticationRequestView,
    get_next_url,
)

from dashboard.people.identities import HOW, Refused
from dashboard.people.provider import Unavailable
from dashboard.people.single_sign_on import asking, setting
from tuning import audit
from tuning.audit import Thing

logger = logging.getLogger(__name__)
BEGUN_S = 600
"""How long somebody may take to sign in at the provider."""
BUSY_S = 5
"""After how many seconds whoever was turned away may try again."""
COOKIE, COOKIE_PATH = "tuneboard_begun", "/oidc/"
STATES, NEXT = "oidc_states", "oidc_login_next"
"""Where mozilla-django-oidc keeps sign-ins that were begun: `state` to nonce and code verifier; and the page to go to."""
LONGEST_NEXT = 1000
"""Characters of that page's address. Browsers drop cookies of more than 4 KB."""
NOT_BEGUN = "This sign-in was begun too long ago, or in another browser, or has been used already."


class BegunSignIns(SessionStore):
    """The sign-ins that a browser has begun, in a signed cookie of its own: in a session, strangers would fill the database."""

    def get_session_cookie_age(self) -> int:
        return BEGUN_S


class Start(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """Sends the browser to the provider, with a new state, nonce and code challenge."""

    get_settings = staticmethod(setting)


class Callback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Takes the code that the browser brings back from the provider, if this browser was sent there."""

    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Where to go, once `self.user` is signed in. Raises `Refused` or `Unavailable`."""
        state, begun = request.GET.get("state", ""), request.session.get(STATES, {})
        if state not in begun:
            raise Refused(NOT_BEGUN)
        if request.GET.get("iss", settings.OIDC_ISSUER) != settings.OIDC_ISSUER:
            raise Refused("The answer comes from another provider.")
        if "code" not in request.GET or "error" in request.GET:
            del begun[state]
            raise Refused(_said(request.GET.get("error", "")))
        answer: HttpResponse = super().get(request)
        return answer

    def login_success(self) -> HttpResponse:
        """Only the address: the site's own session isn't at hand here."""
        return redirect(self.success_url)

    def login_failure(self) -> HttpResponse:
        """For whom is deactivated just now."""
        raise Refused("Nobody was signed in.")


@login_not_required
@require_GET
@never_cache
def start(request: HttpRequest) -> HttpResponse:
    """Whoever is signed in goes on instead."""
    _check_used()
    if request.user.is_authenticated:
        return redirect(get_next_url(request, "next") or settings.LOGIN_REDIRECT_URL)
    try:
        with _begun(request):
            answer: HttpResponse = Start.as_view()(request)
    except Unavailable:
        return _away(request)
    return _remember(request, answer)


@login_not_required
@require_GET
@never_cache
def callback(request: HttpRequest) -> HttpResponse:
    """Signs in, or says why not; both are recorded. Whoever is signed in stays so unless somebody else signs in."""
    _check_used()
    with asking() as free:
        if not free:
            return _away(request, busy=True)
        return _remember(request, _answer(request))


def _answer(request: HttpRequest) -> HttpResponse:
    view = Callback()
    view.setup(request)
    try:
        with _begun(request):
            answer: HttpResponse = view.get(request)
    except Refused as refused:
        audit.refuse("person.sign_in", refused.of or Thing("person"), str(refused), how=HOW)
        return _page(request, 403, reason=str(refused))
    except Unavailable as unavailable:
        logger.warning("Nobody can sign in with the OpenID provider: %s", unavailable)
        audit.refuse("person.sign_in", Thing("person"), f"The provider can't be used: {unavailable}", how=HOW)
        return _away(request)
    _sign_in(request, view.user)
    return answer


def _sign_in(request: HttpRequest, user: User) -> None:
    """Sign in, in a new session, until the provider is to be asked again."""
    with transaction.atomic():
        login(request, user)
    request.session.set_expiry(timezone.now() + timedelta(hours=settings.OIDC_SESSION_HOURS))


@contextmanager
def _begun(request: HttpRequest) -> Iterator[None]:
    """Within it, `request.session` is what this browser has begun; afterwards that is `request.begun`."""
    session = request.session
    request.session = BegunSignIns(request.COOKIES.get(COOKIE))
    try:
        yield
    finally:
        request.begun = request.session  # type: ignore[attr-defined]
        request.session = session


def _remember(request: HttpRequest, answer: HttpResponse) -> HttpResponse:
    """The answer with the cookie of what is still begun."""
    begun: BegunSignIns = request.begun  # type: ignore[attr-defined]
    if not begun.get(STATES):
        answer.delete_cookie(COOKIE, COOKIE_PATH, samesite="Lax")
        return answer
    if len(begun.get(NEXT) or "") > LONGEST_NEXT:
        del begun[NEXT]
    begun.save()
    answer.set_cookie(
        COOKIE,
        begun.session_key or "",
        max_age=BEGUN_S,
        path=COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return answer


def _check_used() -> None:
    if not settings.OIDC_ISSUER:
        raise Http404


def _said(error: str) -> str:
    """Why the provider sends the browser back without a code."""
    if error == "access_denied":
        return "You, or the provider, didn’t allow this sign-in."
    code = error[:60] if error.isascii() and error.isprintable() else ""
    return f"The provider didn’t sign you in{f': {code}' if code else ''}."


def _away(request: HttpRequest, *, busy: bool = False) -> HttpResponse:
    answer = _page(request, 503, away=not busy, busy=busy)
    answer.headers["Retry-After"] = str(BUSY_S)
    return answer


def _page(request: HttpRequest, status: int, **more: Any) -> HttpResponse:
    return render(request, "sign_in_refused.html", {"provider": settings.OIDC_NAME, **more}, status=status)
