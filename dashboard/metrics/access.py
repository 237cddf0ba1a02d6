"""Who may read the metrics, which count the runs of all projects: the site's admins, by token or session, and the addresses in TUNEBOARD_METRICS_FROM."""

from __future__ import annotations

import time

from django.conf import settings
from django.db import connection
from django.http import HttpRequest

from dashboard.accounts import SEE_METRICS
from dashboard.http.addresses import client_address
from dashboard.http.middleware import bearer_token, user_of
from dashboard.models import digest
from tuning.host.reachable import DATABASE_OUTAGE

TRUSTED_S = 3600.0
"""While the database is away, a token that it confirmed within this time is believed: outages are what metrics are for."""
BY_PROXIES = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip")
"""Headers that proxies add. The address is then the proxy's, whoever asked."""
_confirmed: dict[str, float] = {}
"""When the database last confirmed each token, by digest."""


def may_read(request: HttpRequest) -> bool:
    return _is_allowed(request) or _is_admin(request)


def _is_allowed(request: HttpRequest) -> bool:
    if any(header in request.headers for header in BY_PROXIES):
        return False
    address = client_address(request)
    return address is not None and any(address in network for network in settings.METRICS_FROM)


def _is_admin(request: HttpRequest) -> bool:
    """Whether a token or session is of somebody who may see figures of the whole site."""
    authorization = request.headers.get("Authorization", "")
    # Only a token: anything else in this header proves nothing, and may come with a session that does.
    token = bearer_token(authorization)
    key = None if token is None else digest(token)
    try:
        user = user_of(authorization, request.COOKIES)
    except DATABASE_OUTAGE:
        connection.close()
        return key is not None and time.monotonic() < _confirmed.get(key, float("-inf")) + TRUSTED_S
    may = user is not None and user.has_perm(SEE_METRICS)
    if key is not None and may:
        _confirmed[key] = time.monotonic()
    elif key is not None:
        _confirmed.pop(key, None)
    return may
