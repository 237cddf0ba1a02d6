"""Actions of buttons, which lead back to their page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from tuning.validation import Conflict


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
