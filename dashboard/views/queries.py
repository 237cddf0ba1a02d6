"""What a request asks of a page: all of it or a part, and which rows."""

from __future__ import annotations

from django.http import HttpRequest, QueryDict
from django_htmx.middleware import HtmxDetails


def chosen(query: QueryDict) -> QueryDict:
    """A copy without the fields of a form that were left empty, for links that change a part with `{% querystring %}`."""
    kept = QueryDict(mutable=True)
    for name, values in query.lists():
        if filled := [value for value in values if value]:
            kept.setlist(name, filled)
    return kept


def wants_part(request: HttpRequest) -> bool:
    """Whether htmx asks for the part that it replaces; to restore an entry of the history it needs the whole page."""
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.history_restore_request
