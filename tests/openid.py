"""An OpenID provider on loopback: oidc-provider-mock with real signatures, plus a check of PKCE, and ways to misbehave."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import flask
import jwt
import oidc_provider_mock
import requests
from authlib.jose import RSAKey
from werkzeug.serving import make_server

Spoil = Callable[[dict[str, Any]], None]
ASK_S = 10


class OpenIdProvider:
    """The provider and its registered client. `describe` changes its description, `spoil` its answers with tokens."""

    def __init__(self, *redirect_uris: str) -> None:
        self.behave()
        self._challenges: dict[str, str] = {}
        self._rotating = False
        app = oidc_provider_mock.app(require_client_registration=True, require_nonce=True)
        app.before_request(self._before)
        app.after_request(self._after)
        self._server = make_server("127.0.0.1", 0, app, threaded=True)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        client = self._post("/oauth2/clients", {"redirect_uris": redirect_uris}).json()
        self.client_id, self.client_secret = client["client_id"], client["client_secret"]

    def behave(self) -> None:
        """Forget what a test has changed, except for people and keys."""
        self.describe: dict[str, Any] = {}
        self.spoil: Spoil = lambda answer: None
        self.asked: list[str] = []

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def person(self, sub: str, **claims: Any) -> str:
        """Somebody who can sign in there, with these claims from now on."""
        requests.put(f"{self.issuer}/users/{sub}", json=claims, timeout=ASK_S).raise_for_status()
        return sub

    def allow(self, url: str, sub: str, *, deny: bool = False) -> str:
        """What the person does at the provider: where it sends the browser back to."""
        form = {"action": "deny"} if deny else {"sub": sub}
        answer = requests.post(url, form, allow_redirects=False, timeout=ASK_S)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]

    def rotate(self) -> None:
        """From now on it signs with another key."""
        self._rotating = True

    def variables(self, **more: str) -> dict[str, str]:
        """The environment of a site that uses it."""
        return {
            "TUNEBOARD_OIDC_ISSUER": self.issuer,
            "TUNEBOARD_OIDC_CLIENT_ID": self.client_id,
            "TUNEBOARD_OIDC_CLIENT_SECRET": self.client_secret,
            "TUNEBOARD_OIDC_NAME": "Keycloak",
            "TUNEBOARD_OIDC_ROLE_CLAIM": "realm_access.roles",
            "TUNEBOARD_OIDC_ROLES": "tune-admins=admin,tune-operators=operator,tune-viewers=viewer",
        } | more

    def _post(self, path: str, body: dict[str, Any]) -> requests.Response:
        answer = requests.post(self.issuer + path, json=body, timeout=ASK_S)
        answer.raise_for_status()
        return answer

    def _before(self) -> Any:
        request = flask.request
        self.asked.append(request.path)
        if self._rotating:
            flask.g.oidc_provider_mock_storage.jwk, self._rotating = new_key(), False
        if request.path != "/oauth2/token":
            return None
        verifier = hashlib.sha256(request.form.get("code_verifier", "").encode()).digest()
        challenge = self._challenges.pop(request.form.get("code", ""), "")
        if challenge != base64.urlsafe_b64encode(verifier).decode().rstrip("="):
            return {"error": "invalid_grant"}, 400
        return None

    def _after(self, response: flask.Response) -> flask.Response:
        path, args = flask.request.path, flask.request.args
        if path.endswith("/openid-configuration"):
            response.set_data(flask.json.dumps(response.get_json() | self.describe))
        if path == "/oauth2/authorize" and response.status_code == 302 and args.get("code_challenge_method") == "S256":
            for code in parse_qs(urlsplit(response.headers["Location"]).query).get("code", []):
                self._challenges[code] = args["code_challenge"]
        if path == "/oauth2/token" and response.status_code == 200:
            answer = response.get_json()
            self.spoil(answer)
            response.set_data(flask.json.dumps(answer))
        return response


def claims_of(answer: dict[str, Any]) -> dict[str, Any]:
    """What the ID token of a token answer says."""
    claims: dict[str, Any] = jwt.decode(answer["id_token"], options={"verify_signature": False})
    return claims


def own_key() -> dict[str, Any]:
    """The provider's private key. Only while it answers."""
    key: dict[str, Any] = flask.g.oidc_provider_mock_storage.jwk.as_dict(is_private=True)
    return key


def resigned(answer: dict[str, Any], key: dict[str, Any] | None = None, **changes: Any) -> None:
    """Changes claims of the ID token, None removes one; signs it with the provider's own key or another one."""
    own = own_key()
    claims = {name: value for name, value in (claims_of(answer) | changes).items() if value is not None}
    private: Any = jwt.PyJWK(key or own).key
    answer["id_token"] = jwt.encode(claims, private, "RS256", headers={"kid": own["kid"]})


def new_key() -> Any:
    """A key as the provider has one."""
    return RSAKey.generate_key(is_private=True)


@contextmanager
def openid_provider(*redirect_uris: str) -> Iterator[OpenIdProvider]:
    provider = OpenIdProvider(*redirect_uris)
    try:
        yield provider
    finally:
        provider.close()
