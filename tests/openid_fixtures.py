"""`openid`: an OpenID provider that the site of this test uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.openid import OpenIdProvider

CALLBACKS = ("http://testserver/oidc/callback/", "https://tune.example/oidc/callback/")


@pytest.fixture(scope="session")
def running_openid() -> Iterator[OpenIdProvider]:
    from tests.openid import openid_provider

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
        with openid_provider(*CALLBACKS) as provider:
            yield provider


@pytest.fixture
def openid(settings: Any, running_openid: OpenIdProvider) -> Iterator[OpenIdProvider]:
    """It behaves until the test makes it misbehave. Three of its roles mean roles here."""
    from dashboard.people.provider import provider_of
    from dashboard.people.single_sign_on import BACKEND

    running_openid.behave()
    settings.OIDC_ISSUER = running_openid.issuer
    settings.OIDC_NAME = "Keycloak"
    settings.OIDC_RP_CLIENT_ID = running_openid.client_id
    settings.OIDC_RP_CLIENT_SECRET = running_openid.client_secret
    settings.OIDC_ROLE_CLAIM = "realm_access.roles"
    settings.OIDC_ROLES = {"tune-admins": "admin", "tune-operators": "operator", "tune-viewers": "viewer"}
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, BACKEND]
    yield running_openid
    provider_of.cache_clear()
