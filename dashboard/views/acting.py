"""Actions of buttons, which lead back to their page."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from tuning.validation import Conflict

View = Callable[..., HttpResponse]


def posted_to(page: str) -> Callable[[View], View]:
    """For a view that answers a POST with a page: whoever reloads the address later is sent to the page of that name."""

    def decorate(view: View) -> View:
        @wraps(view)
        def posted(request: HttpRequest, **of: Any) -> HttpResponse:
            return view(request, **of) if request.method == "POST" else redirect(page)

        return require_http_methods(["GET", "HEAD", "POST"])(posted)

    return decorate


def act(request: HttpRequest, action: Callable[[], Any], page: str, *, done: str = "", **of: Any) -> HttpResponse:
    """Runs the action and redirects to the page, with the message `done` or the reason of a `Conflict`."""
    try:
        action()
    except Conflict as conflict:
        messages.error(request, str(conflict))
    else:
        if done:
            messages.success(request, done)
    return redirect(reverse(page, kwargs=of))
