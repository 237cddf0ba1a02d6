"""Addresses of the site, for links that people send to each other."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def site_address(request: HttpRequest) -> str:
    """Scheme, host and port: the site's public ones if they are known, otherwise those of the request."""
    return settings.SITE_URL or f"{request.scheme}://{request.get_host()}"
