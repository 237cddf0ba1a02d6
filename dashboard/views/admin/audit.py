"""The audit log as a page and as CSV. The URL holds its filters."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import permission_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.accounts import SEE_AUDIT
from dashboard.http.downloads import Streamed
from dashboard.http.paging import page
from dashboard.presentation import audit as words
from dashboard.views.queries import chosen
from tuning import audit
from tuning.reads import audit_log
from tuning.reads.audit_log import AuditFilter
from tuning.validation import Invalid

PAGE = 50
MOST_PEOPLE = 200
"""Names that the filter suggests."""
FILTERS = ("person", "action", "object", "outcome", "since", "until", "q")
may_see = permission_required(SEE_AUDIT, raise_exception=True)


@require_GET
@may_see
def audit_page(request: HttpRequest) -> HttpResponse:
    """The entries selected by the query; status 422 and a message if it is invalid."""
    query = chosen(request.GET)
    if query != request.GET:
        return redirect(f"{request.path}?{query.urlencode()}")
    wanted = _wanted(query)
    context: dict[str, Any] = {"wanted": wanted, "query": query, "rows": [], "wrong": {}}
    try:
        entries, context["next"] = page(wanted.entries(), "-at", query.get("cursor"), PAGE)
        context["rows"] = [words.row(entry) for entry in entries]
    except Invalid as invalid:
        context["wrong"] = invalid.fields
    context |= {
        "narrowed": any(query.get(name) for name in FILTERS),
        "actions": audit_log.actions(),
        "people": User.objects.order_by("username").values_list("username", flat=True)[:MOST_PEOPLE],
        "days": settings.AUDIT_DAYS,
    }
    return render(request, "admin/audit.html", context, status=422 if context["wrong"] else 200)


@require_GET
@may_see
def audit_csv(request: HttpRequest) -> HttpResponseBase:
    """All entries that the filters select. Taking them away is recorded, too."""
    query = chosen(request.GET)
    try:
        entries = _wanted(query).entries()
    except Invalid as invalid:
        return HttpResponseBadRequest(str(invalid), content_type="text/plain")
    pieces = audit_log.csv_pieces(entries)
    audit.record("audit.download", filters={name: query.get(name) for name in FILTERS if name in query})
    answer: Any = Streamed(pieces, content_type="text/csv; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="audit-log_{timezone.now():%Y-%m-%d}.csv"'
    streamed: HttpResponseBase = answer
    return streamed


def _wanted(query: QueryDict) -> AuditFilter:
    return AuditFilter(**{name: query.get(name, "").strip() for name in FILTERS})  # type: ignore[arg-type]
