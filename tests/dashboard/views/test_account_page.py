"""Your account: password, tokens, signing out everywhere."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from dashboard.accounts import one_time_login_url
from dashboard.models import ApiToken
from dashboard.people import limits, managing
from tests.world import make_user
from tuning.models import AuditEntry

pytestmark = pytest.mark.django_db
NEW = "tensor intrinsics 9"
OLD = "correct horse"


@pytest.fixture
def ada() -> User:
    return make_user("viewer", "ada")


@pytest.fixture
def browser(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def change(client: Client, new: str = NEW, again: str = NEW, **more: str) -> int:
    answer = client.post("/account/password/", {"new_password1": new, "new_password2": again} | more)
    return int(answer.status_code)


def looks(client: Client) -> int:
    return int(client.get("/runs/").status_code)


def signs_in(password: str) -> bool:
    return Client().post("/sign-in/", {"username": "ada", "password": password}).status_code == 302


def test_a_new_password_needs_the_current_one_and_ends_other_sessions(browser: Client, ada: User) -> None:
    elsewhere, token, url = Client(), ApiToken.issue(ada), one_time_login_url(ada)
    elsewhere.force_login(ada)
    for wrong in ("", "wrong", NEW):
        assert change(browser, old_password=wrong) == 422
    assert looks(elsewhere) == 200
    assert change(browser, old_password=OLD) == 302
    assert [looks(browser), looks(elsewhere)] == [200, 302]
    assert (signs_in(NEW), signs_in(OLD)) == (True, False)
    assert ApiToken.objects.owner_of(token), "tokens stay"
    assert Client().get(url).status_code == 403, "login links made before don't"


def test_the_current_password_cannot_be_guessed_for_long(browser: Client, settings: Any) -> None:
    statuses = [change(browser, old_password=f"guess {n}") for n in range(settings.SIGN_IN_ATTEMPTS)]
    assert statuses == [422] * (settings.SIGN_IN_ATTEMPTS - 1) + [429]
    assert change(browser, old_password=OLD) == 429, "not even the right one"
    assert not signs_in(OLD), "nor at sign-in"
    assert looks(browser) == 200


def test_passwords_are_changed_a_few_at_a_time(browser: Client) -> None:
    with ExitStack() as checking:
        for _ in range(limits.CHECKED_AT_ONCE):
            checking.enter_context(limits.password_check())
        assert change(browser, old_password=OLD) == 503
    assert change(browser, old_password=OLD) == 302


@pytest.mark.parametrize(
    ("new", "again"), [("short1!", "short1!"), (NEW, f"{NEW} "), ("123456789012", "123456789012"), ("", "")]
)
def test_a_weak_or_mistyped_password_is_refused(browser: Client, new: str, again: str) -> None:
    assert change(browser, new, again, old_password=OLD) == 422
    assert signs_in(OLD)


def test_who_has_no_password_sets_one(client: Client) -> None:
    make_user("admin")
    client.post(one_time_login_url(managing.invite("grace", "viewer")))
    assertNotContains(client.get("/account/"), "old_password")
    assert change(client) == 302
    assertContains(client.get("/account/"), "old_password")
    assert Client().post("/sign-in/", {"username": "grace", "password": NEW}).status_code == 302


def test_the_page_never_shows_a_password(browser: Client) -> None:
    answer = browser.post("/account/password/", {"old_password": "wrong", "new_password1": NEW, "new_password2": NEW})
    assertNotContains(answer, NEW, status_code=422)


def test_it_shows_a_new_token_once(browser: Client, ada: User) -> None:
    page = browser.post("/account/tokens/", {"name": "nightly", "scope": "read", "days": "90"})
    found = re.search(r'data-role="token-text">(tb_[\w-]{43})<', page.content.decode())
    assert found
    assert ApiToken.objects.owner_of(found[1]) == ada
    entry = AuditEntry.objects.get(action="token.create")
    assert (entry.object_kind, entry.object_id, entry.object_name) == ("person", ada.pk, "ada")
    listed = browser.get("/account/")
    assertContains(listed, "nightly")
    assertNotContains(listed, found[1])
    assertRedirects(browser.get("/account/tokens/"), "/account/")


def test_it_names_what_is_wrong_with_a_token(browser: Client) -> None:
    page = browser.post("/account/tokens/", {"name": "", "scope": "root", "days": "x"})
    for said in (
        "Must be 1 to 100 characters.",
        "Must be one of read, launch, admin.",
        "a whole number from 1 to 3650",
    ):
        assertContains(page, said, status_code=422)
    assert not ApiToken.objects.exists()


def test_it_revokes_tokens_of_ones_own_only(browser: Client, ada: User) -> None:
    own, other = ApiToken.issue(ada, name="mine"), ApiToken.issue(make_user("admin"))
    for token in ApiToken.objects.all():
        browser.post(f"/account/tokens/{token.pk}/revoke/")
    assert ApiToken.objects.owner_of(own) is None
    assert ApiToken.objects.owner_of(other)
    assertContains(browser.get("/account/"), "None yet.")


def test_it_signs_out_everywhere_and_leaves_tokens(browser: Client, ada: User) -> None:
    elsewhere, other, token = Client(), Client(), ApiToken.issue(ada)
    elsewhere.force_login(ada)
    other.force_login(make_user("viewer", "grace"))
    assertContains(browser.get("/account/"), "in 2 browsers")
    answer = browser.post("/account/sign-out/", follow=True)
    assertContains(answer, "You are signed out everywhere. Your tokens still work.")
    assert [looks(browser), looks(elsewhere), looks(other)] == [302, 302, 200]
    assert ApiToken.objects.owner_of(token)


def test_another_site_cannot_press_its_buttons(ada: User) -> None:
    victim = Client(enforce_csrf_checks=True)
    victim.force_login(ada)
    for path in ("password/", "tokens/", "sign-out/"):
        assert victim.post(f"/account/{path}").status_code == 403
    assert looks(victim) == 200
