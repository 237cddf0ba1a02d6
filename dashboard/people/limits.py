"""Limits of signing in by password: wrong attempts by name and by address, and how many passwords are checked at once.

django-axes counts the attempts. Login URLs aren't limited, as nobody can guess one: they let people in who are locked out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network
from typing import Any

from axes.backends import AxesStandaloneBackend
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.template.defaultfilters import pluralize

from dashboard.http.addresses import client_address

CHECKED_AT_ONCE = 4
"""Checking a password keeps a core busy for a third of a second, and anybody may ask for it."""
BUSY_S = 5
"""After how many seconds whoever was turned away may try again."""
NETWORK_BITS = 64
"""Of an IPv6 address: usually a network has one owner, who may use any address of it."""
_checking = threading.BoundedSemaphore(CHECKED_AT_ONCE)


@contextmanager
def password_check() -> Iterator[bool]:
    """Whether the password may be checked now. It isn't waited for: waiting requests would pile up."""
    free = _checking.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            _checking.release()


def counted_as(request: HttpRequest) -> str | None:
    """The address by which attempts are counted: of IPv6, the network's. None if the server doesn't know one."""
    address = client_address(request)
    if not isinstance(address, IPv6Address):
        return str(address) if address else None
    return str(IPv6Network((address, NETWORK_BITS), strict=False).network_address)


def locked() -> str:
    """What somebody is told who tried too often."""
    minutes = settings.SIGN_IN_LOCK_MINUTES
    return f"Too many attempts. Try again in {minutes} minute{pluralize(minutes)}."


def is_locked_out(request: HttpRequest) -> bool:
    """Whether this attempt was refused because of earlier ones, or was the last one allowed."""
    return bool(getattr(request, "axes_locked_out", False))


class PasswordLimits(AxesStandaloneBackend):  # type: ignore[misc]
    """Refuses a password without looking at it once there were too many wrong ones."""

    def authenticate(self, request: HttpRequest | None, password: str | None = None, **credentials: Any) -> None:
        """Raises `PermissionDenied`, so that no other backend is asked."""
        if request is not None and password is not None:
            super().authenticate(request, password=password, **credentials)


class Attempts(AxesDatabaseHandler):  # type: ignore[misc]
    """Counts wrong passwords by address, and by name and address."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """To be compared with SIGN_IN_ATTEMPTS. An address, which many people may share, is allowed more."""
        lists = self.get_user_attempts(request, credentials)
        of_name: int
        of_address: int
        of_name, of_address = (sum(each.values_list("failures_since_start", flat=True)) for each in lists)
        allowance: int = settings.SIGN_IN_ADDRESS_ATTEMPTS - settings.SIGN_IN_ATTEMPTS
        return max(of_name, of_address - allowance)

    def user_login_failed(
        self, sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **rest: Any
    ) -> None:
        """Count a wrong password."""
        if request is not None and "password" in credentials:
            super().user_login_failed(sender, credentials, request, **rest)

    def user_logged_in(self, _sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
        """Forget the user's own attempts at this address. Those with other names still count."""
        address = request.axes_ip_address  # type: ignore[attr-defined]
        AccessAttempt.objects.filter(username=user.get_username(), ip_address=address).delete()

    def user_logged_out(self, *_: Any, **__: Any) -> None:
        """Nothing to do: axes would look for attempts that have expired."""

    def remove_out_of_limit_failure_logs(self, **_: Any) -> int:
        """None: the sweep removes old ones, where axes would remove the newest."""
        return 0
