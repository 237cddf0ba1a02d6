"""The backend for signing in with the OpenID provider: it turns the code that a browser brings back into a verified person.

mozilla-django-oidc asks for the tokens and the user information. What they must be is checked here, as it leaves issuer,
audience and expiry unchecked, and finds people by their e-mail address.
"""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import jwt
import requests
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings

from .backends import Roles
from .identities import Refused, person_of
from .provider import Unavailable, provider

logger = logging.getLogger(__name__)
BACKEND = "dashboard.people.single_sign_on.SingleSignOn"
ALGORITHMS = [f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)] + ["EdDSA"]
"""Signatures that take the provider's private key. Never a shared secret, which could be a public key, and never none."""
CLAIMS = ["iss", "aud", "sub", "exp", "iat", "nonce"]
LEEWAY_S = 60
"""How much the provider's clock may differ."""
ASKED_AT_ONCE = 8
"""Sign-ins that wait for the provider at the same time: each keeps a thread."""
ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
}
_asking = threading.BoundedSemaphore(ASKED_AT_ONCE)


@contextmanager
def asking() -> Iterator[bool]:
    """Whether the provider may be asked now. It isn't waited for: waiting requests would pile up."""
    free = _asking.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            _asking.release()


def setting(name: str, *default: Any) -> Any:
    """A setting as mozilla-django-oidc asks for it; the provider's addresses are what it says itself. Raises `Unavailable`."""
    if name in ENDPOINTS:
        return provider().description().get(ENDPOINTS[name])
    if name == "OIDC_TOKEN_USE_BASIC_AUTH":
        methods = provider().description().get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return "client_secret_post" not in methods
    return import_from_settings(name, *default)


def sign_out_url(back: str) -> str:
    """Where the person signs out of the provider, which then leads to `back`; empty if it has no such address or is away."""
    try:
        endpoint = provider().description().get("end_session_endpoint")
    except Unavailable:
        return ""
    query = urlencode({"client_id": settings.OIDC_RP_CLIENT_ID, "post_logout_redirect_uri": back})
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}" if endpoint else ""


class SingleSignOn(OIDCAuthenticationBackend, Roles):  # type: ignore[misc]
    """Signs in by the code that the provider gave the browser. Permissions are those of `Roles`."""

    get_settings = staticmethod(setting)
    get_user = Roles.get_user

    def __init__(self) -> None:
        """Does nothing: Django makes a backend for each question about permissions, and the library would ask the provider."""

    def authenticate(self, request: HttpRequest, *, nonce: str, code_verifier: str) -> User:  # type: ignore[override]
        """The person. Raises `Refused` or `Unavailable`.

        Both arguments come from the session in which the sign-in was begun. Without them, as for a password, Django asks others.
        """
        self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID
        self.OIDC_RP_CLIENT_SECRET = settings.OIDC_RP_CLIENT_SECRET
        self.OIDC_OP_TOKEN_ENDPOINT = setting("OIDC_OP_TOKEN_ENDPOINT")
        try:
            user = super().authenticate(request, nonce=nonce, code_verifier=code_verifier)
        except requests.RequestException as error:
            raise Unavailable(type(error).__name__) from error
        if not isinstance(user, User):
            raise Refused("The provider's answer has no code.")
        return user

    def get_token(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The tokens for the code. They are neither stored nor logged."""
        found = super().get_token(payload)
        if not isinstance(found, dict):
            raise Unavailable("the token endpoint sent no JSON object")
        return found

    def raise_token_response_error(self, response: requests.Response) -> None:
        """Raises `Refused` if the code is wrong, used or expired, and `Unavailable` for anything else, such as a wrong secret."""
        if response.status_code == requests.codes.ok:
            return
        try:
            error = str(response.json()["error"])[:100]
        except (requests.RequestException, LookupError, TypeError):
            error = ""
        if error == "invalid_grant":
            raise Refused("The provider doesn't accept the code that you brought back.")
        raise Unavailable(f"the token endpoint answered with status {response.status_code} {error}".strip())

    def verify_token(self, token: Any, nonce: str = "", **_: Any) -> dict[str, Any]:
        """The claims of an ID token that this provider made for this site, this sign-in, and now. Raises `Refused`."""
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise Refused("The provider's ID token isn't signed with a key of its own.")
            key = provider().keys().named(header.get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=settings.OIDC_RP_CLIENT_ID,
                issuer=settings.OIDC_ISSUER,
                leeway=LEEWAY_S,
                options={"require": CLAIMS},
            )
        except jwt.PyJWTError as error:
            raise Refused(f"The provider's ID token isn't valid: {error}") from error
        if not nonce or not hmac.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
            raise Refused("The provider's ID token isn't for this sign-in: its nonce is another one.")
        _check_audience(claims)
        return dict(claims)

    def get_or_create_user(self, access_token: Any, _id_token: Any, claims: dict[str, Any]) -> User:
        """The person whom the claims are about. Raises `Refused`."""
        return person_of(settings.OIDC_ISSUER, {**self._further_claims(access_token, claims), **claims})

    def _further_claims(self, access_token: Any, claims: dict[str, Any]) -> dict[str, Any]:
        """What the provider says of the person beyond the ID token, if it has an address for that."""
        self.OIDC_OP_USER_ENDPOINT = setting("OIDC_OP_USER_ENDPOINT")
        if not self.OIDC_OP_USER_ENDPOINT or not isinstance(access_token, str):
            return {}
        found = self.get_userinfo(access_token, None, None)
        if not isinstance(found, dict):
            raise Unavailable("the user information isn't a JSON object")
        if found.get("sub") != claims["sub"]:
            raise Refused("The provider's user information is about somebody else.")
        return found


def _check_audience(claims: dict[str, Any]) -> None:
    """A token for several sites must have been given to this one."""
    audience, party = claims["aud"], claims.get("azp")
    several = isinstance(audience, list) and len(audience) > 1
    if (several or party is not None) and party != settings.OIDC_RP_CLIENT_ID:
        raise Refused("The provider's ID token was given to another site.")
