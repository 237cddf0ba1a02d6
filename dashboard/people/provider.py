"""The OpenID provider: what it says of itself, and the keys that it signs with. Both are fetched when they are needed, and kept."""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache
from typing import Any

import requests
from django.conf import settings
from jwt import PyJWK, PyJWKClient

from tuning.validation import is_confidential

logger = logging.getLogger(__name__)
KEPT_S = 600.0
"""How long the provider's description is used before it is fetched anew."""
PAUSE_S = 5.0
"""How long a provider that gave no description isn't asked for it again."""
NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
OPTIONAL = ("userinfo_endpoint", "end_session_endpoint")
WELL_KNOWN = "/.well-known/openid-configuration"


class Unavailable(Exception):
    """The provider doesn't answer, or not as it should. The message is for the log."""


class Keys(PyJWKClient):
    """The provider's keys, kept for five minutes. A key that isn't among them is looked for once more, as keys change."""

    def fetch_data(self) -> Any:
        """The JSON Web Key Set. Raises `Unavailable`."""
        return fetched(self.uri)

    def named(self, kid: Any) -> PyJWK:
        """The key of this id. A provider with a single key needn't name it. Raises `PyJWTError` and `Unavailable`."""
        keys = self.get_signing_keys() if kid is None else []
        return keys[0] if len(keys) == 1 else self.get_signing_key(str(kid))


class Provider:
    """One provider, for all threads of this process."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self._lock = threading.Lock()
        self._description: dict[str, Any] = {}
        self._keys: Keys | None = None
        self._due = 0.0
        self._trouble = ""

    def description(self) -> dict[str, Any]:
        """What the provider says of itself. Raises `Unavailable`, unless an earlier description is known."""
        with self._lock:
            if time.monotonic() >= self._due:
                self._ask()
            if not self._description:
                raise Unavailable(self._trouble)
            return self._description

    def keys(self) -> Keys:
        """Raises `Unavailable`."""
        uri = self.description()["jwks_uri"]
        with self._lock:
            if self._keys is None or self._keys.uri != uri:
                self._keys = Keys(uri, cooldown_duration=PAUSE_S)
            return self._keys

    def _ask(self) -> None:
        try:
            self._description = self._checked(fetched(self.issuer.rstrip("/") + WELL_KNOWN))
            self._due = time.monotonic() + KEPT_S
        except Unavailable as unavailable:
            self._trouble = str(unavailable)
            self._due = time.monotonic() + PAUSE_S
            logger.warning("The OpenID provider can't be used: %s", unavailable)

    def _checked(self, found: dict[str, Any]) -> dict[str, Any]:
        if found.get("issuer") != self.issuer:
            raise Unavailable(
                f"it calls itself {found.get('issuer')!r}, but TUNEBOARD_OIDC_ISSUER says {self.issuer!r}"
            )
        for name in (*NEEDED, *OPTIONAL):
            url = found.get(name)
            if url is None and name in OPTIONAL:
                continue
            if not isinstance(url, str) or not is_confidential(url):
                raise Unavailable(f"its {name} isn't an HTTPS address: {url!r}")
        return found


@lru_cache(maxsize=1)
def provider_of(issuer: str) -> Provider:
    return Provider(issuer)


def provider() -> Provider:
    """The provider that the site uses."""
    return provider_of(settings.OIDC_ISSUER)


def fetched(url: str) -> dict[str, Any]:
    """The JSON object at the URL, which may not redirect. Raises `Unavailable`."""
    try:
        answer = requests.get(url, timeout=settings.OIDC_TIMEOUT, allow_redirects=False)
        found = answer.json() if answer.status_code == requests.codes.ok else None
    except requests.RequestException as error:
        raise Unavailable(f"{url}: {type(error).__name__}") from error
    if not isinstance(found, dict):
        raise Unavailable(f"{url} answered with status {answer.status_code} and no JSON object")
    return found
