"""What other sites were told of ended runs, for admins: the addresses are secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import MANAGE_WEBHOOKS
from tuning import services
from tuning.models import Delivery

SHOWN = 100

may_manage = permission_required(MANAGE_WEBHOOKS, raise_exception=True)


@require_GET
@may_manage
def webhook_page(request: HttpRequest) -> HttpResponse:
    """The addresses, and what became of the latest messages."""
    deliveries = list(Delivery.objects.all()[:SHOWN])
    context = {
        "addresses": settings.WEBHOOKS,
        "signed": bool(settings.WEBHOOK_SECRET),
        "site_url": settings.SITE_URL,
        "deliveries": deliveries,
        "waiting": any(delivery.status == Delivery.Status.WAITING for delivery in deliveries),
    }
    return render(
        request, "webhooks/_list.html" if request.headers.get("HX-Request") else "webhooks/page.html", context
    )


@require_POST
@may_manage
def webhook_test(request: HttpRequest) -> HttpResponse:
    """Have a test sent to each address."""
    assert isinstance(request.user, User)
    user = request.user
    return _act(request, lambda: services.try_webhooks(user), "A test is on its way to each address.")


@require_POST
@may_manage
def webhook_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Have a message sent again that was given up."""
    delivery = get_object_or_404(Delivery, pk=pk)
    return _act(request, lambda: services.send_again(delivery), "It is sent once more.")


def _act(request: HttpRequest, action: Callable[[], Any], done: str) -> HttpResponse:
    try:
        action()
    except services.Conflict as conflict:
        messages.error(request, str(conflict))
    else:
        messages.success(request, done)
    return redirect("webhook_page")
