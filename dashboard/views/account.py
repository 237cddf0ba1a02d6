"""Your account: password, tokens, and signing out everywhere."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import password_validators_help_texts
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from dashboard.http.access import person
from dashboard.people import limits, managing, tokens
from dashboard.people.passwords import password_form
from dashboard.people.sessions import end_sessions
from tuning import audit
from tuning.validation import Busy, Conflict, Invalid

from .acting import posted_to


@require_GET
def account_page(request: HttpRequest) -> HttpResponse:
    return _page(request)


@sensitive_post_parameters()
@posted_to("account_page")
def account_password(request: HttpRequest) -> HttpResponse:
    """Set or change the password; all other sessions end."""
    user = person(request)
    try:
        managing.check_may_have_password(user)
    except Conflict as conflict:
        audit.refuse("person.password", user, str(conflict))
        messages.error(request, str(conflict))
        return redirect("account_page")
    form = password_form(request, user, request.POST)
    with limits.password_check() as free:
        if not free:
            raise Busy("Too many passwords are being checked. Try again in a few seconds.", own=False)
        valid = form.is_valid()
    if not valid:
        return _page(request, status=429 if limits.is_locked_out(request) else 422, password=form)
    with audit.act("person.password", user):
        form.save()
        update_session_auth_hash(request, user)
        end_sessions(user, keep=request.session.session_key)
    messages.success(request, "Your password is set. You are signed out everywhere else.")
    return redirect("account_page")


@posted_to("account_page")
def token_create(request: HttpRequest) -> HttpResponse:
    """Shows the new token, in this answer only."""
    asked = {field: request.POST.get(field, "") for field in tokens.FIELDS}
    try:
        made = tokens.create(person(request), **asked)
    except Invalid as invalid:
        return _page(request, status=422, wrong=invalid.fields, asked=asked)
    return _page(request, status=201, made=made)


@require_POST
def token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    token = get_object_or_404(person(request).api_tokens, pk=pk)
    tokens.revoke(token)
    messages.success(request, f"The token {token.name} is revoked.")
    return redirect("account_page")


@require_POST
def sign_out_everywhere(request: HttpRequest) -> HttpResponse:
    """End all of one's own sessions, this one included."""
    user = person(request)
    with audit.act("person.sign_out_everywhere", user):
        end_sessions(user)
    logout(request)
    messages.success(request, "You are signed out everywhere. Your tokens still work.")
    return redirect("sign_in")


def _may_have_password(user: User) -> bool:
    try:
        managing.check_may_have_password(user)
    except Conflict:
        return False
    return True


def _page(request: HttpRequest, status: int = 200, **more: Any) -> HttpResponse:
    user = person(request)
    context = {
        "person": managing.person(user),
        "password": password_form(request, user),
        "may_have_password": _may_have_password(user),
        "rules": password_validators_help_texts(),
        "tokens": tokens.of(user),
        "projects": tokens.projects(user),
        "scopes": tokens.Scope.choices,
        "asked": {"scope": tokens.Scope.READ},
        "sessions": user.kept_sessions.count(),
        **more,
    }
    return render(request, "account.html", context, status=status)
