"""The metrics for Prometheus. The page that draws them is `dashboard.views.admin.metrics`."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from dashboard.metrics.access import may_read
from dashboard.metrics.exposition import exposition


@csrf_exempt
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """401 for everybody who may not read them, whatever the method."""
    if not may_read(request):
        refusal = HttpResponse(
            "Send a token of an admin: Authorization: Bearer TOKEN\n", status=401, content_type="text/plain"
        )
        refusal.headers["WWW-Authenticate"] = 'Bearer realm="Tuneboard"'
        return refusal
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(("GET", "HEAD"))
    text, content_type = exposition(request.headers.get("Accept", ""))
    return HttpResponse(text, content_type=content_type)
