"""The health check. Open to anonymous users: it says only whether this process serves and reaches its database."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.db import Error
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from tuning.host import schema

LATER = "The database was upgraded by a later Tuneboard."


@login_not_required
@never_cache
@require_safe
def health(request: HttpRequest) -> JsonResponse:  # noqa: ARG001
    """`{"status": "ok"}`, or 503 with the reason."""
    try:
        reason = LATER if schema.newer() else None
    except Error:
        reason = "The database can't be reached."
    return JsonResponse(
        {"status": "unavailable", "reason": reason} if reason else {"status": "ok"}, status=503 if reason else 200
    )
