"""The audit log."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Query, Router

from dashboard.accounts import SEE_AUDIT
from dashboard.http.paging import page

from . import queries, shapes
from .auth import needs
from .shapes import ERRORS

router = Router(tags=["administration"])


@router.get("audit", response={200: shapes.AuditPage, **ERRORS}, auth=needs(SEE_AUDIT))
def list_audit(request: HttpRequest, query: Query[queries.AuditQuery]) -> shapes.AuditPage:  # noqa: ARG001
    """Who did what, newest first; also what was refused."""
    entries, following = page(query.filter().entries(), "-at", query.cursor, query.limit)
    return {"items": [entry.to_dict() for entry in entries], "next": following}
