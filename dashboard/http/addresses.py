"""The address of the site, for links that people send to each other, and those of its clients."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest


def site_address(request: HttpRequest) -> str:
    """Scheme, host and port: the site's public ones if they are known, otherwise those of the request."""
    return settings.SITE_URL or f"{request.scheme}://{request.get_host()}"


def client_address(request: HttpRequest) -> IPv4Address | IPv6Address | None:
    """The client's, as IPv4 where it is an IPv4 address; None if the server doesn't know one."""
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
