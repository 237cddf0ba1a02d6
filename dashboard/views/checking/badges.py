"""The badge of a regression check. Whoever has its address sees it, without signing in: READMEs and wikis show it."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from dashboard.http.conditional import etag_for
from dashboard.presentation.checking.badge import PADDING_PX, badge
from tuning.models import RegressionCheck


@login_not_required
@require_safe
def regression_badge(request: HttpRequest, key: str) -> HttpResponseBase:
    """An SVG. It is asked for each time, and sent if it has changed."""
    check = get_object_or_404(RegressionCheck.objects.select_related("latest"), badge_key=key)
    shown = badge(check, timezone.now())
    etag = etag_for(" ".join(shown))
    answer = get_conditional_response(request, etag=etag) or _drawn(request, shown._asdict(), shown.widths)
    answer.headers["ETag"] = etag
    answer.headers["Cache-Control"] = "private, no-cache"
    return answer


def _drawn(request: HttpRequest, shown: dict[str, str], widths: tuple[int, int]) -> HttpResponse:
    left, right = widths
    texts = [width - 2 * PADDING_PX for width in widths]
    places = {"left": left, "right": right, "width": left + right, "padding": PADDING_PX, "text_at": left + PADDING_PX}
    context = {**shown, **places, "label_length": texts[0], "text_length": texts[1]}
    return render(request, "regressions/badge.svg", context, content_type="image/svg+xml")
