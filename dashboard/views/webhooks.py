"""The webhooks page. Only for admins: the addresses are secrets."""

from __future__ import annotations

from functools import partial

from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts import MANAGE_WEBHOOKS
from dashboard.http.access import person
from tuning.actions import deliveries
from tuning.models import Delivery

from .acting import act

SHOWN = 100

may_manage = permission_required(MANAGE_WEBHOOKS, raise_exception=True)


@require_GET
@may_manage
def webhook_page(request: HttpRequest) -> HttpResponse:
    """The addresses and the latest deliveries."""
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
    attempt = partial(deliveries.send_test, person(request))
    return act(request, attempt, "webhook_page", done="A test message is on its way to each address.")


@require_POST
@may_manage
def webhook_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Sends a message again whose delivery was given up."""
    delivery = get_object_or_404(Delivery, pk=pk)
    return act(
        request, lambda: deliveries.send_again(delivery), "webhook_page", done="The message is being sent again."
    )
