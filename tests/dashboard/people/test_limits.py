"""Signing in by password: how often it may go wrong, and how many passwords are checked at once."""

from __future__ import annotations

import re
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog
from django.contrib.auth import hashers
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.accounts import one_time_login_url
from dashboard.models import Session
from dashboard.people import limits
from dashboard.people.tidying import Tidier
from tests.world import make_user

pytestmark = pytest.mark.django_db
HERE, THERE = "203.0.113.7", "203.0.113.8"


@pytest.fixture
def ada() -> User:
    return make_user("viewer", "ada")


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were hashed."""
    seen: list[str] = []
    encode = hashers.MD5PasswordHasher.encode

    def counted(self: Any, password: str, salt: str) -> str:
        seen.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(hashers.MD5PasswordHasher, "encode", counted)
    return seen


def attempt(name: str = "ada", password: str = "wrong", address: str = HERE, **headers: Any) -> Any:
    return Client().post("/sign-in/", {"username": name, "password": password}, REMOTE_ADDR=address, **headers)


def test_a_name_is_locked_for_the_address_after_five_attempts(ada: User, checked: list[str]) -> None:
    answers = [attempt() for _ in range(4)]
    assert {answer.status_code for answer in answers} == {200}
    locked = attempt()
    assert (locked.status_code, locked.headers["Retry-After"]) == (429, "900")
    assert b"Too many attempts. Try again in 15 minutes." in locked.content
    checked.clear()
    refused = attempt(password="correct horse")
    assert refused.status_code == 429
    assert checked == [], "a password was hashed"
    assert attempt(password="correct horse", address=THERE).status_code == 302, "elsewhere it isn't locked"


def test_other_people_at_the_address_can_sign_in(ada: User) -> None:
    make_user("viewer", "grace")
    for _ in range(6):
        attempt()
    assert attempt("grace", "correct horse").status_code == 302


def test_an_address_is_locked_for_every_name_after_many_attempts(ada: User, settings: Any) -> None:
    settings.SIGN_IN_ADDRESS_ATTEMPTS = 10
    for number in range(10):
        attempt(f"name-{number}")
    assert attempt(password="correct horse").status_code == 429
    assert attempt(password="correct horse", address=THERE).status_code == 302


def test_another_browser_or_a_forged_header_makes_no_difference(ada: User) -> None:
    for number in range(5):
        attempt(HTTP_USER_AGENT=f"browser {number}", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}")
    assert attempt(password="correct horse").status_code == 429


def test_a_network_of_ipv6_counts_as_one_address(ada: User) -> None:
    for number in range(5):
        attempt(address=f"2001:db8:0:7::{number + 1}")
    assert attempt(password="correct horse", address="2001:db8:0:7:ffff::9").status_code == 429
    assert attempt(password="correct horse", address="2001:db8:0:8::1").status_code == 302


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8::5", "2001:db8::"),
        ("::1", "::"),
        ("", None),
        ("unix:", None),
        ("x" * 5000, None),
    ],
)
def test_it_knows_addresses(address: str, counted_as: str | None) -> None:
    assert limits.counted_as(RequestFactory().get("/", REMOTE_ADDR=address)) == counted_as


def test_a_client_without_an_address_is_limited_too(ada: User) -> None:
    for _ in range(5):
        attempt(address="")
    assert attempt(password="correct horse", address="").status_code == 429


def test_a_lock_ends(ada: User) -> None:
    for _ in range(5):
        attempt()
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert attempt(password="correct horse").status_code == 302


def test_attempts_while_locked_do_not_prolong_the_lock(ada: User) -> None:
    for _ in range(5):
        attempt()
    before = AccessAttempt.objects.values().get()
    assert attempt().status_code == 429
    assert AccessAttempt.objects.values().get() == before


def test_signing_in_forgets_only_the_own_attempts(ada: User, settings: Any) -> None:
    settings.SIGN_IN_ADDRESS_ATTEMPTS = 10
    for number in range(6):
        attempt(f"name-{number}")
    for _ in range(2):
        for _ in range(3):
            attempt()
        assert attempt(password="correct horse").status_code == 302
    for number in range(4):
        attempt(f"more-{number}")
    assert attempt(password="correct horse").status_code == 429, "an account of one's own doesn't help to guess others"


def test_a_login_url_works_despite_the_lock_and_is_not_counted(ada: User) -> None:
    for _ in range(3):
        assert Client().post("/login/?sesame=nonsense", REMOTE_ADDR=HERE).status_code == 403
    assert not AccessAttempt.objects.exists()
    for _ in range(5):
        attempt()
    assert Client().post(one_time_login_url(ada), REMOTE_ADDR=HERE).status_code == 302


def test_nobody_learns_which_accounts_exist(ada: User, checked: list[str]) -> None:
    User.objects.create_user("gone", password="correct horse", is_active=False)
    User.objects.filter(pk=make_user("viewer", "linked").pk).update(password=hashers.make_password(None))
    shown: dict[str, list[tuple[int, bytes]]] = {}
    hashed = {}
    for number, name in enumerate(("ada", "nobody", "gone", "linked")):
        checked.clear()
        password = "correct horse" if name == "gone" else "wrong"
        answers = [attempt(name, password, f"203.0.113.{number + 20}") for _ in range(6)]
        cleaned = [(answer.status_code, without_secrets(answer.content, name)) for answer in answers]
        shown[name] = cleaned
        hashed[name] = len(checked)
    assert shown["nobody"] == shown["ada"] == shown["gone"] == shown["linked"]
    assert hashed == dict.fromkeys(shown, 5), "unknown names cost as much as known ones"


def without_secrets(page: bytes, name: str) -> bytes:
    return re.sub(rb'name="csrfmiddlewaretoken" value="\w+"', b"", page).replace(name.encode(), b"NAME")


def test_attempts_are_recorded_without_secrets(ada: User) -> None:
    client = Client()
    client.post(
        "/sign-in/?next=/runs/&sesame=a-secret-link",
        {"username": "ada", "password": "my-secret-password", "next": "/runs/?a=secret"},
        REMOTE_ADDR=HERE,
        HTTP_USER_AGENT="Firefox",
    )
    kept = AccessFailureLog.objects.get()
    assert (kept.username, kept.ip_address, kept.user_agent) == ("ada", HERE, "Firefox")
    assert "secret" not in str(AccessAttempt.objects.values())
    assert "secret" not in str(AccessFailureLog.objects.values())


def test_the_sweep_removes_old_attempts_and_ended_sessions(ada: User) -> None:
    attempt()
    Client().force_login(ada)
    Client().force_login(ada)
    kept, ended = Session.objects.all()
    Session.objects.filter(pk=ended.pk).update(expire_date=timezone.now() - timedelta(seconds=1))
    Tidier()()
    assert [session.pk for session in Session.objects.all()] == [kept.pk]
    assert AccessFailureLog.objects.exists()
    AccessFailureLog.objects.update(attempt_time=timezone.now() - timedelta(days=31))
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(days=31))
    Tidier()()
    assert not AccessFailureLog.objects.exists()
    assert not AccessAttempt.objects.exists()


def test_sweeping_tidies(ada: User) -> None:
    from dashboard.people.tidying import tidy
    from tuning.actions.sweeping import sweep

    attempt()
    AccessFailureLog.objects.update(attempt_time=timezone.now() - timedelta(days=31))
    tidy.due = 0.0
    sweep()
    assert not AccessFailureLog.objects.exists()


def test_only_a_few_passwords_are_checked_at_once(ada: User, checked: list[str]) -> None:
    with ExitStack() as others:
        for _ in range(limits.CHECKED_AT_ONCE):
            assert others.enter_context(limits.password_check())
        busy = attempt(password="correct horse")
        assert (busy.status_code, busy.headers["Retry-After"]) == (503, "5")
        assert b"Too many people are signing in" in busy.content
        assert checked == []
        assert Client().get("/sign-in/").status_code == 200
    assert attempt(password="correct horse").status_code == 302


def test_a_check_that_breaks_gives_its_place_back(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(hashers.MD5PasswordHasher, "verify", broken)
        for _ in range(limits.CHECKED_AT_ONCE):
            with pytest.raises(RuntimeError):
                attempt()
    assert attempt(password="correct horse").status_code == 302


def test_other_pages_ask_no_more_of_the_database(ada: User) -> None:
    client = Client()
    client.force_login(ada)
    client.get("/machines/")
    with CaptureQueriesContext(
        connection,
    ) as asked:
        client.get("/machines/")
    assert not [query["sql"] for query in asked if "axes" in query["sql"] or "UPDATE" in query["sql"]]
