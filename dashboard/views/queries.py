"""The query of a page's address, for links that change a part of it with Django's `{% querystring %}`."""

from __future__ import annotations

from django.http import QueryDict


def chosen(query: QueryDict) -> QueryDict:
    """A copy without the fields of a form that were left empty."""
    kept = QueryDict(mutable=True)
    for name, values in query.lists():
        if filled := [value for value in values if value]:
            kept.setlist(name, filled)
    return kept
