"""Signing in with an OpenID provider that really runs and signs."""

from __future__ import annotations

import base64
import hmac
import json
import re
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dashboard.accounts import first_admin, one_time_login_url, role_of
from dashboard.models import ApiToken, Identity, Session
from dashboard.people import managing
from dashboard.people.identities import Refused, person_of
from dashboard.people.provider import provider_of
from dashboard.people.sessions import SessionStore
from dashboard.people.single_sign_on import ASKED_AT_ONCE, BACKEND, asking
from dashboard.views.single_sign_on import COOKIE
from tests.openid import OpenIdProvider, claims_of, new_key, own_key, resigned
from tests.test_audited import NEW_PASSWORD
from tests.world import make_user
from tuning.models import AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
ELSEWHERE = ["https://evil.example/", "//evil.example", "javascript:alert(1)", "http://testserver.evil.example/"]


def begun(client: Client, path: str = "/oidc/start/", **more: Any) -> str:
    """Where the browser is sent."""
    answer = client.get(path, **more)
    assert answer.status_code == 302, answer.content
    return answer.headers["Location"]


def brought_back(client: Client, url: str, **more: Any) -> Any:
    """The site's answer to what the browser brings back."""
    parts = urlsplit(url)
    return client.get(f"{parts.path}?{parts.query}", **more)


def sign_in(client: Client, openid: OpenIdProvider, sub: str, path: str = "/oidc/start/") -> Any:
    return brought_back(client, openid.allow(begun(client, path), sub))


def roles(*names: str) -> dict[str, Any]:
    return {"realm_access": {"roles": list(names)}}


def who(client: Client) -> User | None:
    return User.objects.filter(pk=client.session.get("_auth_user_id", 0)).first()


def test_a_person_signs_in_and_gets_the_role_of_the_claim(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", preferred_username="ada", **roles("offline_access", "tune-viewers", "tune-operators"))
    answer = sign_in(client, openid, "7f3")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/runs/")
    user = who(client)
    assert user is not None
    assert (user.username, role_of(user), user.has_usable_password()) == ("ada", "operator", False)
    assert (user.identity.issuer, user.identity.subject) == (openid.issuer, "7f3")
    assert client.get("/runs/").status_code == 200


def test_the_person_is_the_same_at_the_next_sign_in_whatever_they_are_called_by_then(openid: OpenIdProvider) -> None:
    first, second = Client(), Client()
    openid.person("7f3", preferred_username="ada", **roles("tune-viewers"))
    sign_in(first, openid, "7f3")
    openid.person("7f3", preferred_username="grace", email="x@y.example", **roles("tune-viewers"))
    sign_in(second, openid, "7f3")
    assert who(first) == who(second)
    assert User.objects.count() == Identity.objects.count() == 1


def test_it_leads_back_to_the_page_that_was_asked_for(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    page = client.get("/sign-in/?next=/runs/7/%3Ftab%3Derrors").content.decode()
    assert 'href="/oidc/start/?next=/runs/7/%3Ftab%3Derrors"' in page.replace("%2F", "/")
    answer = sign_in(client, openid, "7f3", "/oidc/start/?next=/runs/7/%3Ftab%3Derrors")
    assert answer.headers["Location"] == "/runs/7/?tab=errors"


@pytest.mark.parametrize("target", ELSEWHERE)
def test_it_never_leads_to_another_site(client: Client, openid: OpenIdProvider, target: str) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    assert sign_in(client, openid, "7f3", f"/oidc/start/?{urlencode({'next': target})}").headers["Location"] == "/runs/"
    again = client.get(f"/oidc/start/?{urlencode({'next': target})}")
    assert again.headers["Location"] == "/runs/", "whoever is signed in isn't led there either"


def test_it_asks_with_state_nonce_and_code_challenge_never_twice_the_same(openid: OpenIdProvider) -> None:
    asked = [parse_qs(urlsplit(begun(Client())).query) for _ in range(2)]
    for query in asked:
        assert query["response_type"] == ["code"]
        assert query["code_challenge_method"] == ["S256"]
        assert query["redirect_uri"] == ["http://testserver/oidc/callback/"]
    for name in ("state", "nonce", "code_challenge"):
        assert asked[0][name] != asked[1][name]


def test_it_starts_a_new_session_that_ends_when_the_provider_is_to_be_asked_again(
    client: Client, openid: OpenIdProvider, settings: Any
) -> None:
    settings.OIDC_SESSION_HOURS = 2
    openid.person("7f3", **roles("tune-viewers"))
    session = client.session
    session["planted"] = 1
    session.save()
    planted = str(session.session_key)
    client.cookies["tuneboard_session"] = planted
    sign_in(client, openid, "7f3")
    assert client.session.session_key != planted
    assert not SessionStore().exists(planted)
    assert 7000 < client.session.get_expiry_age() <= 7200


def test_who_only_begins_stores_nothing_here(client: Client, openid: OpenIdProvider) -> None:
    for _ in range(20):
        begun(client)
    assert not Session.objects.exists()
    assert len(client.cookies[COOKIE].value) < 2000


def test_what_a_browser_has_begun_is_in_a_cookie_for_this_alone(client: Client, openid: OpenIdProvider) -> None:
    begun(client, f"/oidc/start/?{urlencode({'next': '/runs/' + 'x' * 4000})}")
    cookie = client.cookies[COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["max-age"]) == (True, "Lax", "/oidc/", 600)
    assert len(cookie.value) < 2000


def test_several_tabs_sign_in_at_once(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    first, second = begun(client), begun(client)
    assert brought_back(client, openid.allow(first, "7f3")).status_code == 302
    assert brought_back(client, openid.allow(second, "7f3")).status_code == 302


@pytest.mark.parametrize("spoiled", ["", "x", ":::", "e30:1:x"])
def test_a_forged_cookie_begins_nothing(client: Client, openid: OpenIdProvider, spoiled: str) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    url = openid.allow(begun(client), "7f3")
    client.cookies[COOKIE] = spoiled
    assert refused(brought_back(client, url), "begun too long ago")


def test_what_was_begun_expires(client: Client, openid: OpenIdProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    url = openid.allow(begun(client), "7f3")
    later = time.time() + 601
    monkeypatch.setattr("django.core.signing.time.time", lambda: later)
    assert refused(brought_back(client, url), "begun too long ago")


def test_no_token_is_stored_or_logged(
    client: Client, openid: OpenIdProvider, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    seen: list[str] = []
    openid.spoil = lambda answer: seen.extend([answer["access_token"], answer["id_token"]])
    openid.person("7f3", **roles("tune-viewers"))
    caplog.set_level("DEBUG")
    url = openid.allow(begun(client), "7f3")
    seen += parse_qs(urlsplit(url).query)["code"]
    brought_back(client, url)
    told = json.dumps(
        [dict(client.session.items()), client.cookies.output(), list(AuditEntry.objects.values())], default=str
    )
    ours = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(("dashboard", "django", "mozilla", "urllib3", "tuning"))
    ]
    assert len(seen) == 3
    for secret in (*seen, settings.OIDC_RP_CLIENT_SECRET):
        assert secret not in told
        assert not [line for line in ours if secret in line]


# What an attacker does with a browser


def refused(answer: Any, reason: str) -> bool:
    """Whether the page and the audit log say so."""
    assert answer.status_code == 403, answer.content
    said = re.search(r'data-role="reason">(.*?)</p>', unescape(answer.content.decode()))
    assert said, answer.content
    assert reason in said[1]
    entry = AuditEntry.objects.filter(action="person.sign_in").latest("pk")
    return entry.refused and entry.reason == said[1]


def test_a_code_is_refused_in_a_browser_that_did_not_begin(client: Client, openid: OpenIdProvider) -> None:
    """Login CSRF: the attacker makes others open a callback with the attacker's own code."""
    openid.person("evil", **roles("tune-viewers"))
    attackers = openid.allow(begun(client), "evil")
    victim = Client()
    begun(victim)
    assert refused(brought_back(victim, attackers), "in another browser")
    assert who(victim) is None
    victim.force_login(make_user("viewer", "ada"))
    assert refused(brought_back(victim, attackers), "in another browser")
    assert str(who(victim)) == "ada"


def test_another_persons_code_cannot_be_put_into_ones_own_sign_in(client: Client, openid: OpenIdProvider) -> None:
    """Code injection: the stolen code comes with the attacker's own state, but not with the victim's code verifier."""
    openid.person("victim", **roles("tune-admins"))
    stolen = parse_qs(urlsplit(openid.allow(begun(Client()), "victim")).query)["code"][0]
    state = parse_qs(urlsplit(begun(client)).query)["state"][0]
    answer = client.get("/oidc/callback/", {"code": stolen, "state": state})
    assert refused(answer, "doesn't accept the code")
    assert who(client) is None


def test_an_answer_works_once(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    url = openid.allow(begun(client), "7f3")
    assert brought_back(client, url).status_code == 302
    client.post("/sign-out/")
    assert refused(brought_back(client, url), "used already")
    assert who(client) is None


def test_an_answer_is_used_up_even_if_it_was_refused(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("other"))
    url = openid.allow(begun(client), "7f3")
    assert refused(brought_back(client, url), "None of your roles")
    assert refused(brought_back(client, url), "used already")


@pytest.mark.parametrize("query", ["", "?code=x", "?state=x", "?code=x&state=", "?error=x", "?code=%00&state=%ff"])
def test_an_answer_without_a_sign_in_is_refused(client: Client, openid: OpenIdProvider, query: str) -> None:
    begun(client)
    assert refused(client.get(f"/oidc/callback/{query}"), "begun too long ago")
    assert openid.asked.count("/oauth2/token") == 0


def test_nobody_is_signed_out_by_an_error_that_another_site_links_to(client: Client, openid: OpenIdProvider) -> None:
    client.force_login(make_user("viewer", "ada"))
    assert refused(client.get("/oidc/callback/?error=access_denied&state=x"), "begun too long ago")
    assert str(who(client)) == "ada"


def test_a_code_in_the_address_of_the_password_form_means_nothing(client: Client, openid: OpenIdProvider) -> None:
    """The library would take it from any request that asks who signs in."""
    openid.person("7f3", **roles("tune-admins"))
    url = openid.allow(begun(client), "7f3")
    client.post(f"/sign-in/?{urlsplit(url).query}", {"username": "ada", "password": "wrong"})
    assert who(client) is None
    assert openid.asked.count("/oauth2/token") == 0


def test_the_answer_of_another_provider_is_refused(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    url = openid.allow(begun(client), "7f3")
    assert refused(brought_back(client, f"{url}&iss=https://evil.example"), "another provider")


def test_it_says_so_if_the_person_declines(client: Client, openid: OpenIdProvider) -> None:
    url = begun(client)
    state = parse_qs(urlsplit(url).query)["state"][0]
    denied = openid.allow(url, "7f3", deny=True)
    answer = brought_back(client, f"{denied}&state={state}" if "state=" not in denied else denied)
    assert answer.status_code == 403
    assert "allow this sign-in" in answer.content.decode()


# What a provider could send that this site must not believe


def other_rsa(own: dict[str, Any]) -> dict[str, Any]:
    return dict(new_key().as_dict(is_private=True)) | {"kid": own["kid"]}


def forged_by_public_key(answer: dict[str, Any]) -> None:
    """HS256, with the provider's public key as the secret."""
    own = own_key()
    public = jwt.PyJWK({name: own[name] for name in ("kty", "n", "e", "kid")}).key
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": own["kid"]}).encode()).rstrip(b"=")
    body = base64.urlsafe_b64encode(json.dumps(claims_of(answer)).encode()).rstrip(b"=")
    mac = base64.urlsafe_b64encode(hmac.digest(pem, header + b"." + body, "sha256")).rstrip(b"=")
    answer["id_token"] = b".".join([header, body, mac]).decode()


def by_client_secret(answer: dict[str, Any]) -> None:
    answer["id_token"] = jwt.encode(claims_of(answer), "x" * 64, "HS256", headers={"kid": own_key()["kid"]})


def unsigned(answer: dict[str, Any]) -> None:
    answer["id_token"] = jwt.encode(claims_of(answer), "", "none", headers={"kid": own_key()["kid"]})


def with_changed_body(answer: dict[str, Any]) -> None:
    header, _, mac = answer["id_token"].split(".")
    body = base64.urlsafe_b64encode(json.dumps(claims_of(answer) | {"sub": "victim"}).encode()).rstrip(b"=").decode()
    answer["id_token"] = f"{header}.{body}.{mac}"


BAD_TOKENS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "unsigned": (unsigned, "isn't signed"),
    "HS256 with the public key": (forged_by_public_key, "isn't signed"),
    "HS256": (by_client_secret, "isn't signed"),
    "another key": (lambda answer: resigned(answer, other_rsa(own_key())), "Signature verification failed"),
    "changed after it was signed": (with_changed_body, "Signature verification failed"),
    "another issuer": (lambda answer: resigned(answer, iss="https://evil.example"), "Invalid issuer"),
    "no issuer": (lambda answer: resigned(answer, iss=None), "iss"),
    "another audience": (lambda answer: resigned(answer, aud="other-site"), "Audience"),
    "no audience": (lambda answer: resigned(answer, aud=None), "aud"),
    "given to another site": (lambda answer: resigned(answer, azp="other-site"), "given to another site"),
    "for several sites": (
        lambda answer: resigned(answer, aud=[*claims_of(answer)["aud"], "other-site"], azp=None),
        "given to another site",
    ),
    "expired": (lambda answer: resigned(answer, exp=int(time.time()) - 120), "expired"),
    "without an end": (lambda answer: resigned(answer, exp=None), "exp"),
    "of the future": (lambda answer: resigned(answer, iat=int(time.time()) + 600), "not yet valid"),
    "another nonce": (lambda answer: resigned(answer, nonce="other"), "nonce"),
    "no nonce": (lambda answer: resigned(answer, nonce=None), "nonce"),
    "an empty nonce": (lambda answer: resigned(answer, nonce=""), "nonce"),
    "about another subject than the user information": (lambda answer: resigned(answer, sub="victim"), "somebody else"),
    "no subject": (lambda answer: resigned(answer, sub=None), "sub"),
    "none": (lambda answer: answer.pop("id_token"), "ID token isn't valid"),
    "no JWT": (lambda answer: answer.update(id_token="..."), "ID token isn't valid"),
    "a number": (lambda answer: answer.update(id_token=7), "ID token isn't valid"),
}


@pytest.mark.parametrize("kind", BAD_TOKENS)
def test_a_bad_id_token_signs_nobody_in(client: Client, openid: OpenIdProvider, kind: str) -> None:
    openid.person("7f3", **roles("tune-admins"))
    openid.spoil, reason = BAD_TOKENS[kind]
    assert refused(sign_in(client, openid, "7f3"), reason)
    assert who(client) is None
    assert not User.objects.exists()


def test_a_token_for_several_sites_that_was_given_to_this_one_is_accepted(
    client: Client, openid: OpenIdProvider
) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    openid.spoil = lambda answer: resigned(answer, aud=[openid.client_id, "other-site"], azp=openid.client_id)
    assert sign_in(client, openid, "7f3").status_code == 302


# Who is who


def test_a_persons_name_at_the_provider_never_leads_to_an_account_here(openid: OpenIdProvider) -> None:
    local = first_admin()
    User.objects.filter(pk=local.pk).update(email="boss@tune.example")
    claims = {"preferred_username": "admin", "email": "boss@tune.example", "email_verified": True}
    openid.person("evil", **claims, **roles("tune-viewers"))
    client = Client()
    sign_in(client, openid, "evil")
    user = who(client)
    assert user is not None
    assert (user.username, role_of(user)) == ("admin2", "viewer")
    assert role_of(local) == "admin"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "ada"}, "ada"),
        ({"preferred_username": "GRACE"}, "GRACE2"),
        ({"preferred_username": "\N{CYRILLIC SMALL LETTER A}dmin"}, "dmin"),
        ({"preferred_username": "Admin"}, "Admin2"),
        ({"preferred_username": "<b>ada</b>\n"}, "b.ada.b"),
        ({"preferred_username": "日本", "email": "sora@tune.example"}, "sora@tune.example"),
        ({"preferred_username": 7, "name": "Ada Lovelace"}, "Ada.Lovelace"),
        ({"preferred_username": "x" * 500}, "x" * 100),
        ({}, "person"),
    ],
)
def test_a_new_person_gets_a_free_name(openid: OpenIdProvider, claims: dict[str, Any], name: str) -> None:
    make_user("viewer", "grace")
    openid.spoil = lambda answer: resigned(answer, **claims)
    openid.person("7f3", **roles("tune-viewers"))
    client = Client()
    sign_in(client, openid, "7f3")
    assert str(who(client)) == name


def test_the_same_subject_of_another_issuer_is_somebody_else(client: Client, openid: OpenIdProvider) -> None:
    other = make_user("admin", "ada")
    Identity.objects.create(user=other, issuer="https://old.example", subject="7f3", signed_in_at=timezone.now())
    openid.person("7f3", **roles("tune-viewers"))
    sign_in(client, openid, "7f3")
    assert who(client) not in (None, other)


@pytest.mark.parametrize("subject", ["", "x" * 256, "a\0b"])
def test_an_unusable_subject_is_refused(client: Client, openid: OpenIdProvider, subject: str) -> None:
    with pytest.raises(Refused, match="no usable id"):
        person_of(openid.issuer, {"sub": subject, **roles("tune-viewers")})


def test_a_deactivated_person_is_refused(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    sign_in(client, openid, "7f3")
    user = who(client)
    assert user is not None
    managing.deactivate(user)
    again = Client()
    assert refused(sign_in(again, openid, "7f3"), "deactivated")
    assert who(again) is None
    assert User.objects.count() == 1


# Roles


@pytest.mark.parametrize(
    "claims",
    [
        {},
        roles("other"),
        roles("*"),
        {"realm_access": "tune-admins"},
        {"realm_access": {"roles": {"tune-admins": 1}}},
        {"realm_access": {"roles": [["tune-admins"], 7, None]}},
        {"realm_access": None},
        {"roles": ["tune-admins"]},
    ],
)
def test_nobody_gets_in_without_a_role(client: Client, openid: OpenIdProvider, claims: dict[str, Any]) -> None:
    openid.person("7f3", preferred_username="ada", **claims)
    assert refused(sign_in(client, openid, "7f3"), "None of your roles")
    assert AuditEntry.objects.latest("pk").object_name == "ada"
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        ("groups", {"groups": "tune-admins"}),
        ("https://tune.example/roles", {"https://tune.example/roles": ["tune-admins"]}),
        ("email", {"email": "tune-admins", "email_verified": True}),
    ],
)
def test_the_claim_can_be_a_text_or_have_dots_in_its_name(
    client: Client, openid: OpenIdProvider, settings: Any, claim: str, claims: dict[str, Any]
) -> None:
    settings.OIDC_ROLE_CLAIM = claim
    openid.person("7f3", **claims)
    assert sign_in(client, openid, "7f3").status_code == 302


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_is_not_verified_gives_no_role(
    client: Client, openid: OpenIdProvider, settings: Any, verified: Any
) -> None:
    settings.OIDC_ROLE_CLAIM, settings.OIDC_ROLES = "email", {"boss@tune.example": "admin"}
    openid.person("evil", email="boss@tune.example", email_verified=verified)
    assert refused(sign_in(client, openid, "evil"), "None of your roles")


@pytest.mark.parametrize(
    ("claims", "let_in"),
    [
        ({"hd": "tune.example"}, True),
        ({"email": "Ada@Tune.Example", "email_verified": True}, True),
        ({"email": "ada@tune.example", "email_verified": False}, False),
        ({"email": "ada@tune.example"}, False),
        ({"email": "ada@evil-tune.example", "email_verified": True}, False),
        ({"email": "ada@tune.example.evil", "email_verified": True}, False),
        ({"email": "@tune.example@evil", "email_verified": True}, False),
        ({"hd": "tune.example.evil"}, False),
        ({"hd": None}, False),
        ({}, False),
    ],
)
def test_only_those_are_let_in_whom_the_site_admits(
    client: Client, openid: OpenIdProvider, settings: Any, claims: dict[str, Any], let_in: bool
) -> None:
    settings.OIDC_ADMIT = [("hd", "tune.example"), ("email", "@tune.example")]
    settings.OIDC_ROLES = {"*": "viewer"}
    openid.person("7f3", **claims)
    answer = sign_in(client, openid, "7f3")
    assert answer.status_code == 302 if let_in else refused(answer, "whom this site admits")


def test_a_role_that_changes_at_the_provider_changes_here_at_the_next_sign_in(openid: OpenIdProvider) -> None:
    first_admin()
    client = Client()
    for claim, role in (("tune-admins", "admin"), ("tune-viewers", "viewer"), ("tune-operators", "operator")):
        openid.person("7f3", **roles(claim))
        sign_in(client, openid, "7f3")
        user = who(client)
        assert user is not None
        assert role_of(user) == role
        client.post("/sign-out/")
    entries = AuditEntry.objects.filter(action="person.role", details__how="single sign-on")
    assert [entry.details["role"] for entry in entries.order_by("pk")] == ["admin", "viewer", "operator"]


def test_whoever_loses_every_role_at_the_provider_loses_role_and_sessions_here(openid: OpenIdProvider) -> None:
    first_admin()
    before, again = Client(), Client()
    openid.person("7f3", **roles("tune-admins"))
    sign_in(before, openid, "7f3")
    user = who(before)
    assert user is not None
    token = ApiToken.issue(user)
    openid.person("7f3")
    assert refused(sign_in(again, openid, "7f3"), "None of your roles")
    assert role_of(User.objects.get(pk=user.pk)) is None
    assert before.get("/runs/").headers["Location"].startswith("/sign-in/")
    assert Client().get("/api/v1/runs", headers={"authorization": f"Bearer {token}"}).status_code == 403
    openid.person("7f3", **roles("tune-viewers"))
    assert sign_in(again, openid, "7f3").status_code == 302
    assert who(again) == user


def test_the_last_admin_loses_the_role_at_the_provider_but_not_silently(
    openid: OpenIdProvider, caplog: pytest.LogCaptureFixture
) -> None:
    openid.person("7f3", **roles("tune-admins"))
    sign_in(Client(), openid, "7f3")
    openid.person("7f3", **roles("tune-viewers"))
    client = Client()
    sign_in(client, openid, "7f3")
    user = who(client)
    assert user is not None
    assert role_of(user) == "viewer"
    assert AuditEntry.objects.filter(action="person.role").latest("pk").details["last_admin"] is True
    assert "the last admin" in caplog.text
    assert first_admin() != user, "whoever has a shell makes another admin"


def test_two_first_sign_ins_at_once_make_one_person(openid: OpenIdProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is stored between looking and storing."""
    openid.person("7f3", preferred_username="ada", **roles("tune-viewers"))
    names = iter(["ada", "ada", "ada2"])
    User.objects.create_user("ada")
    monkeypatch.setattr("dashboard.people.identities.free_name", lambda _: next(names))
    client = Client()
    sign_in(client, openid, "7f3")
    assert str(who(client)) == "ada2"


# The provider itself


def test_the_provider_is_asked_for_its_description_and_keys_once(openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    for _ in range(3):
        assert sign_in(Client(), openid, "7f3").status_code == 302
    assert openid.asked.count("/.well-known/openid-configuration") == openid.asked.count("/jwks") == 1


def test_permissions_never_ask_the_provider(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    sign_in(client, openid, "7f3")
    openid.asked.clear()
    assert client.get("/runs/").status_code == 200
    assert openid.asked == []


def test_new_keys_of_the_provider_are_used(openid: OpenIdProvider) -> None:
    openid.spoil = resigned  # which names the key
    openid.person("7f3", **roles("tune-viewers"))
    sign_in(Client(), openid, "7f3")
    openid.rotate()
    assert sign_in(Client(), openid, "7f3").status_code == 302
    assert openid.asked.count("/jwks") == 2


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
        {"userinfo_endpoint": 7},
    ],
)
def test_a_description_that_cannot_be_trusted_is_not_used(
    client: Client, openid: OpenIdProvider, described: dict[str, Any]
) -> None:
    openid.describe = described
    answer = client.get("/oidc/start/")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "Keycloak doesn’t answer" in answer.content.decode()


def test_it_says_so_if_the_provider_is_away(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    url = openid.allow(begun(client), "7f3")
    openid.describe = {"token_endpoint": "http://127.0.0.1:9/token"}
    provider_of.cache_clear()
    answer = brought_back(client, url)
    assert answer.status_code == 503
    assert "Keycloak doesn’t answer" in answer.content.decode()
    entry = AuditEntry.objects.get(action="person.sign_in")
    assert (entry.refused, entry.details["how"]) == (True, "single sign-on")


@pytest.mark.parametrize("endpoint", ["", "token_endpoint", "userinfo_endpoint", "jwks_uri"])
def test_it_does_not_wait_for_a_provider_that_never_answers(
    client: Client, openid: OpenIdProvider, settings: Any, endpoint: str
) -> None:
    """Without a limit of time, this test would never end."""
    openid.person("7f3", **roles("tune-viewers"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        if endpoint:
            openid.describe = {endpoint: f"{address}/x"}
            url = openid.allow(begun(client), "7f3")
        else:
            settings.OIDC_ISSUER = address
            url = "/oidc/start/"
        # Only now: a busy machine may take longer to answer what leads up to this.
        settings.OIDC_TIMEOUT = (0.2, 0.2)
        assert brought_back(client, url).status_code == 503


def test_it_does_not_keep_asking_a_provider_that_is_away(client: Client, openid: OpenIdProvider) -> None:
    openid.describe = {"issuer": "https://evil.example"}
    for _ in range(3):
        assert client.get("/oidc/start/").status_code == 503
    assert openid.asked == ["/.well-known/openid-configuration"]


def test_a_wrong_client_secret_is_the_sites_fault(
    client: Client, openid: OpenIdProvider, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.OIDC_RP_CLIENT_SECRET = "wrong-secret"
    openid.person("7f3", **roles("tune-viewers"))
    assert sign_in(client, openid, "7f3").status_code == 503
    assert "invalid_client" in caplog.text
    assert "wrong-secret" not in caplog.text


def test_only_so_many_wait_for_the_provider_at_once(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    url = openid.allow(begun(client), "7f3")
    with ExitStack() as others:
        for _ in range(ASKED_AT_ONCE):
            others.enter_context(asking())
        assert brought_back(client, url).status_code == 503
    assert brought_back(client, url).status_code == 302


# The site around it


def test_without_a_provider_there_is_nothing_to_sign_in_with(client: Client) -> None:
    for path in ("/oidc/start/", "/oidc/callback/?code=x&state=x"):
        assert client.get(path).status_code == 404
    assert "provider-sign-in" not in client.get("/sign-in/").content.decode()


def test_behind_a_proxy_it_comes_back_to_the_address_that_the_browser_knows(
    client: Client, openid: OpenIdProvider, settings: Any
) -> None:
    """The proxy speaks HTTP to the site. `test_proxies.py` has whose X-Forwarded-Proto is believed."""
    settings.ALLOWED_HOSTS = ["tune.example"]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    openid.person("7f3", **roles("tune-viewers"))
    proxy: dict[str, Any] = {"headers": {"host": "tune.example", "x-forwarded-proto": "https"}}
    url = begun(client, **proxy)
    assert parse_qs(urlsplit(url).query)["redirect_uri"] == ["https://tune.example/oidc/callback/"]
    assert brought_back(client, openid.allow(url, "7f3"), **proxy).status_code == 302


def test_sign_out_leads_on_to_the_provider(client: Client, openid: OpenIdProvider) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    sign_in(client, openid, "7f3")
    page = unescape(client.post("/sign-out/").content.decode())
    back = urlencode({"client_id": openid.client_id, "post_logout_redirect_uri": "http://testserver/sign-in/"})
    assert f'content="0;url={openid.issuer}/oauth2/end_session?{back}"' in page
    assert who(client) is None


def test_sign_out_is_here_alone_if_the_provider_has_none_or_did_not_let_the_person_in(
    client: Client, openid: OpenIdProvider
) -> None:
    client.force_login(make_user("viewer"), "dashboard.people.backends.Roles")
    assert client.post("/sign-out/").headers["Location"] == "/sign-in/"
    openid.describe = {"end_session_endpoint": None}
    openid.person("7f3", **roles("tune-viewers"))
    sign_in(client, openid, "7f3")
    assert client.post("/sign-out/").headers["Location"] == "/sign-in/"


def test_sessions_end_when_the_site_no_longer_uses_the_provider(
    client: Client, openid: OpenIdProvider, settings: Any
) -> None:
    openid.person("7f3", **roles("tune-viewers"))
    sign_in(client, openid, "7f3")
    settings.AUTHENTICATION_BACKENDS = settings.AUTHENTICATION_BACKENDS[:-1]
    assert client.get("/runs/").headers["Location"].startswith("/sign-in/")


# People, and passwords


def provided(openid: OpenIdProvider, role: str = "tune-operators") -> User:
    client = Client()
    openid.person("7f3", preferred_username="ada", **roles(role))
    sign_in(client, openid, "7f3")
    user = who(client)
    assert user is not None
    return user


def test_people_shows_who_signs_in_with_the_provider_and_when(client: Client, openid: OpenIdProvider) -> None:
    user = provided(openid)
    client.force_login(first_admin(), "dashboard.people.backends.LoginUrls")
    listed = next(person for person in managing.people() if person["id"] == user.pk)
    assert (listed["signs_in_by"], listed["role_from"]) == (["Keycloak"], "Keycloak")
    assert listed["signed_in_at"] == user.identity.signed_in_at
    page = client.get("/admin/people/").content.decode()
    assert "Keycloak decides" in page
    assert f"/admin/people/{user.pk}/role/" not in page
    assert f"/admin/people/{user.pk}/link/" not in page
    assert f"/admin/people/{user.pk}/deactivate/" in page


def test_admins_neither_change_the_providers_role_nor_make_a_link_around_it(
    client: Client, openid: OpenIdProvider, settings: Any
) -> None:
    user = provided(openid)
    client.force_login(first_admin(), "dashboard.people.backends.LoginUrls")
    client.post(f"/admin/people/{user.pk}/role/", {"role": "admin"})
    assert role_of(User.objects.get(pk=user.pk)) == "operator"
    assert "login-url" not in client.post(f"/admin/people/{user.pk}/link/", follow=True).content.decode()
    settings.OIDC_ISSUER = ""
    client.post(f"/admin/people/{user.pk}/role/", {"role": "viewer"})
    assert role_of(User.objects.get(pk=user.pk)) == "viewer", "without the provider, admins decide again"


def test_whom_the_provider_lets_in_has_no_password_beside_it(openid: OpenIdProvider, settings: Any) -> None:
    user = provided(openid)
    client = Client()
    client.force_login(user, BACKEND)
    assert "password-form" not in client.get("/account/").content.decode()
    client.post("/account/password/", {"new_password1": "a battery staple", "new_password2": "a battery staple"})
    assert not User.objects.get(pk=user.pk).has_usable_password()
    user.set_password("correct horse")  # as `manage.py changepassword` does
    user.save()
    other = Client()
    other.post("/sign-in/", {"username": "ada", "password": "correct horse"})
    assert who(other) is None
    settings.OIDC_ISSUER = ""
    other.post("/sign-in/", {"username": "ada", "password": "correct horse"})
    assert who(other) == user


def test_sign_in_by_password_can_be_turned_off(client: Client, openid: OpenIdProvider, settings: Any) -> None:
    settings.PASSWORD_SIGN_IN = False
    user = make_user("admin", "ada")
    page = client.get("/sign-in/").content.decode()
    assert "password" not in page
    assert "Sign in with Keycloak" in page
    answer = client.post("/sign-in/", {"username": "ada", "password": "correct horse"})
    assert answer.status_code == 403
    assert who(client) is None
    assert AuditEntry.objects.get(action="person.sign_in").reason == "Signing in by password is turned off."
    assert authenticate(None, username="ada", password="correct horse") is None
    assert client.post(one_time_login_url(user)).status_code == 302, "login links still work"
    assert managing.ways(user) == ["login link"]
    assert "password-form" not in client.get("/account/").content.decode()
    client.post("/account/password/", NEW_PASSWORD)
    assert User.objects.get(pk=user.pk).check_password("correct horse")


def test_a_token_of_whom_the_provider_let_in_is_still_capped_by_its_scope(openid: OpenIdProvider) -> None:
    """Each backend adds to what somebody may do: this one mustn't add anything."""
    user = ApiToken.make(provided(openid, "tune-admins"), scope="read")[0].bearer()
    assert not any(permission.startswith("auth.change") for permission in user.get_all_permissions())
    assert not user.has_perm("tuning.add_run")
