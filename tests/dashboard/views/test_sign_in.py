"""Signing in by password or by a URL that works once, and signing out."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone
from pytest_django.asserts import assertContains

from dashboard.accounts import one_time_login_url
from tests.world import make_user

pytestmark = pytest.mark.django_db
ELSEWHERE = ["https://evil.example/", "//evil.example", "javascript:alert(1)", "http://testserver.evil.example/"]


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_anonymous_users_are_sent_to_sign_in_and_back(client: Client) -> None:
    make_user("viewer", "ada")
    away = client.get("/runs/7/?tab=errors")
    assert away.headers["Location"] == "/sign-in/?next=/runs/7/%3Ftab%3Derrors"
    back = client.post(away.headers["Location"], {"username": "ada", "password": "correct horse"})
    assert back.headers["Location"] == "/runs/7/?tab=errors"


def test_it_shows_the_form_and_refuses_a_wrong_password(client: Client) -> None:
    make_user("viewer", "ada")
    assert client.get("/sign-in/").status_code == 200
    again = client.post("/sign-in/", {"username": "ada", "password": "wrong"})
    assert again.status_code == 200
    assert not signed_in(client)


def test_nobody_signs_in_without_a_password(client: Client) -> None:
    one_time_login_url(make_user_without_password())
    for password in ("", "!", "None"):
        client.post("/sign-in/", {"username": "admin", "password": password})
        assert not signed_in(client)


def make_user_without_password() -> User:
    from dashboard.accounts import first_admin

    return first_admin()


@pytest.mark.parametrize("target", ELSEWHERE)
def test_it_never_redirects_to_another_site(client: Client, target: str) -> None:
    make_user("viewer", "ada")
    response = client.post("/sign-in/", {"username": "ada", "password": "correct horse", "next": target})
    assert response.headers["Location"] == "/runs/"


def test_it_signs_in_by_url_once(client: Client) -> None:
    url = one_time_login_url(make_user("operator"), "http://testserver")
    first = client.post(url)
    assert (first.status_code, first.headers["Location"]) == (302, "/runs/")
    assert signed_in(client)
    stranger = Client()
    for second in (stranger.get(url), stranger.post(url)):
        assert second.status_code == 403
        assert b"manage.py login_url" in second.content
    assert not signed_in(stranger)


def test_opening_the_url_only_asks(client: Client) -> None:
    """Chats and mail servers open links for a preview."""
    url = one_time_login_url(make_user("operator", "ada"))
    for _ in range(2):
        assertContains(client.get(url), "Sign in as ada?")
        assert not signed_in(client)
    assert client.post(url).status_code == 302


def test_another_site_cannot_sign_its_visitors_in() -> None:
    url = one_time_login_url(make_user("operator", "mallory"))
    victim = Client(enforce_csrf_checks=True)
    assert victim.post(url).status_code == 403
    victim.force_login(make_user("operator", "ada"))
    assertContains(victim.get(url), "You are signed in as ada now.")


def test_only_one_of_two_simultaneous_visits_signs_in(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    user = make_user("operator")
    url = one_time_login_url(user)

    def other_visit_meanwhile(*_: Any, **__: Any) -> User:
        found = User.objects.get(pk=user.pk)
        User.objects.filter(pk=user.pk).update(last_login=timezone.now())
        return found

    monkeypatch.setattr("sesame.utils.get_user", other_visit_meanwhile)
    assert client.post(url).status_code == 403
    assert not signed_in(client)


def test_it_refuses_an_expired_url(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    url = one_time_login_url(make_user("operator"))
    monkeypatch.setattr("sesame.tokens_v2.time.time", lambda: timezone.now().timestamp() + 3601)
    assert client.get(url).status_code == 403
    assert not signed_in(client)


@pytest.mark.parametrize(
    "query", ["", "?sesame=", "?sesame=nonsense", "?sesame=AAAAAAAAAAAAAAAAAAAAAAAA", "?sesame=%00%ff"]
)
def test_it_refuses_a_forged_url(client: Client, query: str) -> None:
    make_user("admin")
    assert client.get(f"/login/{query}").status_code == 403
    assert not signed_in(client)


def test_it_refuses_a_deactivated_user(client: Client) -> None:
    user = make_user("admin")
    url = one_time_login_url(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert client.get(url).status_code == 403


def test_head_does_not_use_up_the_url(client: Client) -> None:
    url = one_time_login_url(make_user("operator"))
    assert client.head(url).status_code == 405
    assert client.post(url).status_code == 302


def test_a_signed_in_user_can_visit_a_used_url(client: Client) -> None:
    url = one_time_login_url(make_user("operator"))
    client.post(url)
    assert client.get(url + "&next=/runs/new/").headers["Location"] == "/runs/new/"


def test_it_redirects_only_within_this_site(client: Client) -> None:
    user = make_user("operator")
    assert client.post(one_time_login_url(user) + "&next=/runs/3/").headers["Location"] == "/runs/3/"
    for target in ELSEWHERE:
        user.refresh_from_db()
        assert Client().post(one_time_login_url(user) + f"&next={quote(target)}").headers["Location"] == "/runs/"


def test_the_url_is_neither_cached_nor_sent_to_other_sites_as_referrer(client: Client) -> None:
    url = one_time_login_url(make_user("operator"))
    for response in (client.get(url), client.post(url)):
        # With `no-referrer`, browsers would send the form without its origin, and the CSRF check would refuse it.
        assert response.headers["Referrer-Policy"] == "same-origin"
        assert "no-store" in response.headers["Cache-Control"]


def test_it_starts_a_new_session_at_sign_in(client: Client) -> None:
    user = make_user("operator")
    session = client.session
    session["planted"] = 1
    session.save()
    planted = str(session.session_key)
    client.cookies["tuneboard_session"] = planted
    client.post(one_time_login_url(user))
    assert client.session.session_key != planted


def test_it_signs_out_by_post_only(client: Client) -> None:
    client.force_login(make_user("viewer"))
    assert client.get("/sign-out/").status_code == 405
    assert signed_in(client)
    response = client.post("/sign-out/")
    assert (response.status_code, response.headers["Location"]) == (302, "/sign-in/")
    assert not signed_in(client)


def test_every_form_needs_a_csrf_token() -> None:
    make_user("viewer", "ada")
    client = Client(enforce_csrf_checks=True)
    assert client.post("/sign-in/", {"username": "ada", "password": "correct horse"}).status_code == 403
    client.force_login(make_user("operator"))
    for path in ("/sign-out/", "/runs/new/", "/runs/1/stop/", "/runs/1/resume/"):
        assert client.post(path).status_code == 403, path


@pytest.mark.parametrize("password", ["short1!", "password1234", "123456789012", "grace.hopper"])
def test_weak_passwords_are_refused(password: str) -> None:
    with pytest.raises(ValidationError):
        validate_password(password, User(username="grace.hopper"))
