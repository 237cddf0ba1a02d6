"""Signing in with the OpenID provider: sending the browser there, and taking what it brings back."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
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
"""How long somebody may take to sign in at the provider. What is kept meanwhile in the database goes after that time."""
BUSY_S = 5
"""After how many seconds whoever was turned away may try again."""
STATES, NEXT = "oidc_states", "oidc_login_next"
"""Where mozilla-django-oidc keeps sign-ins that were begun: `state` to nonce and code verifier; and the page to go to."""
NOT_BEGUN = "This sign-in was begun too long ago, or in another browser, or has been used already."


class Start(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """Sends the browser to the provider, with a new state, nonce and code challenge."""

    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Whoever is signed in goes on instead."""
        if request.user.is_authenticated:
            return redirect(get_next_url(request, "next") or settings.LOGIN_REDIRECT_URL)
        answer: HttpResponse = super().get(request)
        request.session.set_expiry(BEGUN_S)
        return answer


class Callback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Takes the code that the browser brings back from the provider, if this browser was sent there."""

    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Raises `Refused` or `Unavailable`. Whoever is signed in stays so unless somebody else signs in."""
        state, begun = request.GET.get("state", ""), request.session.get(STATES, {})
        if state not in begun:
            raise Refused(NOT_BEGUN)
        if request.GET.get("iss", settings.OIDC_ISSUER) != settings.OIDC_ISSUER:
            raise Refused("The answer comes from another provider.")
        if "code" not in request.GET or "error" in request.GET:
            del begun[state]
            request.session.modified = True
            raise Refused(_said(request.GET.get("error", "")))
        answer: HttpResponse = super().get(request)
        return answer

    def login_success(self) -> HttpResponse:
        """Sign in, in a new session, until the provider is to be asked again."""
        goes_to = self.success_url
        with transaction.atomic():
            login(self.request, self.user)
        session = self.request.session
        for key in (STATES, NEXT):
            session.pop(key, None)
        session.set_expiry(timezone.now() + timedelta(hours=settings.OIDC_SESSION_HOURS))
        return redirect(goes_to)


@login_not_required
@require_GET
@never_cache
def start(request: HttpRequest) -> HttpResponse:
    _check_used()
    try:
        answer: HttpResponse = Start.as_view()(request)
    except Unavailable:
        return _away(request)
    return answer


@login_not_required
@require_GET
@never_cache
def callback(request: HttpRequest) -> HttpResponse:
    """Signs in, or says why not; both are recorded."""
    _check_used()
    try:
        with asking() as free:
            if not free:
                return _away(request, busy=True)
            answer: HttpResponse = Callback.as_view()(request)
    except Refused as refused:
        audit.refuse("person.sign_in", refused.of or Thing("person"), str(refused), how=HOW)
        return _page(request, 403, reason=str(refused))
    except Unavailable as unavailable:
        logger.warning("Nobody can sign in with the OpenID provider: %s", unavailable)
        audit.refuse("person.sign_in", Thing("person"), f"The provider can't be used: {unavailable}", how=HOW)
        return _away(request)
    return answer


def _check_used() -> None:
    if not settings.OIDC_ISSUER:
        raise Http404


def _said(error: str) -> str:
    """Why the provider sends the browser back without a code."""
    if error == "access_denied":
        return "The provider says that you, or it, didn’t allow this sign-in."
    code = error[:60] if error.isascii() and error.isprintable() else ""
    return f"The provider didn’t sign you in{f': {code}' if code else ''}."


def _away(request: HttpRequest, *, busy: bool = False) -> HttpResponse:
    answer = _page(request, 503, away=not busy, busy=busy)
    answer.headers["Retry-After"] = str(BUSY_S)
    return answer


def _page(request: HttpRequest, status: int, **more: Any) -> HttpResponse:
    context = {"provider": settings.OIDC_NAME, "passwords": settings.PASSWORD_SIGN_IN, **more}
    return render(request, "sign_in_refused.html", context, status=status)
