"""People are invited, given roles, deactivated and reactivated; there is always an admin."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.db import connection
from django.test import Client

from dashboard.accounts import active_admins, one_time_login_url, role_of
from dashboard.models import ApiToken, Person, Session, digest
from dashboard.people import managing
from tests.world import make_user
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db


def sign_in(client: Client, user: User, **more: str) -> Any:
    return client.post("/sign-in/", {"username": user.username, "password": "correct horse"} | more)


def looks(client: Client) -> int:
    return int(client.get("/runs/").status_code)


def test_an_invited_person_signs_in_by_the_link() -> None:
    user = managing.invite(" grace ", "operator")
    assert (user.username, role_of(user), user.has_usable_password()) == ("grace", "operator", False)
    client = Client()
    assert client.post(one_time_login_url(user)).status_code == 302
    assert looks(client) == 200


@pytest.mark.parametrize("name", ["", "  ", "a b", "x" * 151, "t\tab", "nul\0", None, 7, ["a"], "Ada", "ADA"])
def test_it_refuses_a_name_that_is_not_one_or_taken(name: Any) -> None:
    make_user("viewer", "ada")
    with pytest.raises(Invalid) as refused:
        managing.invite(name, "root")
    assert refused.value.fields.keys() == {"name", "role"}
    assert User.objects.count() == 1


@pytest.mark.parametrize("role", ["", None, "root", ["admin"], {}])
def test_it_refuses_a_role_that_is_not_one(role: Any) -> None:
    user = make_user("viewer")
    with pytest.raises(Invalid, match="role: Must be one of viewer, operator, admin"):
        managing.invite("grace", role)
    with pytest.raises(Invalid):
        managing.change_role(user, role)
    assert role_of(User.objects.get()) == "viewer"


def test_a_role_holds_at_once() -> None:
    admin, user = make_user("admin"), make_user("viewer", "ada")
    client = Client()
    client.force_login(user)
    assert client.get("/runs/new/").status_code == 403
    managing.change_role(user, "operator", by=admin)
    assert client.get("/runs/new/").status_code == 200
    managing.change_role(user, "viewer", by=admin)
    assert client.get("/runs/new/").status_code == 403


def test_deactivating_ends_sessions_tokens_and_login_urls() -> None:
    admin, user = make_user("admin"), make_user("operator", "ada")
    browsers = [Client(), Client()]
    for browser in browsers:
        browser.force_login(user)
        assert looks(browser) == 200
    other = Client()
    other.force_login(admin)
    token, url = ApiToken.issue(user), one_time_login_url(user)
    managing.deactivate(user, by=admin)
    assert [looks(browser) for browser in browsers] == [302, 302]
    assert looks(other) == 200, "somebody else's session"
    assert ApiToken.objects.owner_of(token) is None
    assert Client().get(url).status_code == 403
    assert sign_in(Client(), user).status_code == 200, "the form again"
    with pytest.raises(Conflict, match="ada is deactivated"):
        managing.check_may_sign_in(User.objects.get(pk=user.pk))


def test_nothing_that_ended_comes_back_after_reactivation() -> None:
    admin, user = make_user("admin"), make_user("operator", "ada")
    browser = Client()
    browser.force_login(user)
    stale = Client()
    stale.force_login(user)
    raced = Session.objects.get(pk=digest(str(stale.session.session_key)))
    token, url = ApiToken.issue(user), one_time_login_url(user)
    managing.deactivate(user, by=admin)
    raced.save(force_insert=True)  # A sign-in that began before.
    assert looks(stale) == 302
    managing.reactivate(user)
    assert [looks(browser), looks(stale)] == [302, 302]
    assert ApiToken.objects.owner_of(token) is None
    assert Client().get(url).status_code == 403
    assert sign_in(Client(), user).status_code == 302
    assert role_of(User.objects.get(pk=user.pk)) == "operator"


def test_a_request_that_was_under_way_does_not_revive_its_session() -> None:
    admin, user = make_user("admin"), make_user("operator", "ada")
    browser = Client()
    browser.force_login(user)
    session = browser.session
    assert session["_auth_user_id"]
    managing.deactivate(user, by=admin)
    session["late"] = 1
    with pytest.raises(UpdateError):
        session.save()
    assert not Session.objects.filter(user=user).exists()


def test_nobody_changes_their_own_role_or_deactivates_themselves() -> None:
    admin = make_user("admin", "ada")
    make_user("admin", "grace")
    with pytest.raises(Conflict, match="your own role"):
        managing.change_role(admin, "viewer", by=admin)
    with pytest.raises(Conflict, match="your own account"):
        managing.deactivate(admin, by=admin)
    by_token = ApiToken.objects.owner_of(ApiToken.issue(admin))
    with pytest.raises(Conflict, match="your own role"):
        managing.change_role(admin, "viewer", by=by_token)


@pytest.mark.parametrize("how", ["deactivate", "demote"])
def test_the_last_active_admin_stays(how: str) -> None:
    admin = make_user("admin", "ada")
    User.objects.filter(pk=make_user("admin", "gone").pk).update(is_active=False)
    act = managing.deactivate if how == "deactivate" else lambda user: managing.change_role(user, "viewer")
    with pytest.raises(Conflict, match="ada is the last active admin"):
        act(admin)
    User.objects.create_superuser("root")
    act(admin)
    with pytest.raises(Conflict, match=r"^root is "):
        act(User.objects.get(username="root"))


@pytest.mark.django_db(transaction=True)
def test_two_admins_cannot_remove_each_other() -> None:
    pair = [make_user("admin", "ada"), make_user("admin", "grace")]
    ready = threading.Barrier(2)

    def remove(user: User, by: User) -> None:
        ready.wait()
        try:
            managing.deactivate(user, by=by)
        except Conflict:
            pass
        finally:
            connection.close()

    threads = [threading.Thread(target=remove, args=(one, other)) for one, other in (pair, pair[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert active_admins().count() == 1


def test_a_superuser_keeps_being_an_admin() -> None:
    make_user("admin")
    root = User.objects.create_superuser("root")
    with pytest.raises(Conflict, match="root is a superuser"):
        managing.change_role(root, "viewer")


def test_it_lists_everybody(django_assert_max_num_queries: Any) -> None:
    ada = make_user("admin", "ada")
    managing.deactivate(make_user("viewer", "bob"))
    managing.invite("grace", "operator")
    ApiToken.issue(ada)
    ApiToken.issue(ada)
    Person.objects.exclude(user=ada).delete()  # As if the others had never been here.
    with django_assert_max_num_queries(4):
        shown = managing.people()
    names = [(one["name"], one["role"], one["active"], one["signs_in_by"], one["tokens"]) for one in shown]
    assert names == [
        ("ada", "admin", True, ["password"], 2),
        ("grace", "operator", True, ["login link"], 0),
        ("bob", "viewer", False, ["password"], 0),
    ]
    assert [one["seen_at"] is not None for one in shown] == [True, False, False]


def test_who_was_seen_is_recorded_at_most_once_a_minute(django_assert_num_queries: Any) -> None:
    from datetime import timedelta

    user = make_user("viewer")
    client = Client()
    client.force_login(user)
    looks(client)
    first = Person.objects.get(pk=user.pk).seen_at
    looks(client)
    assert Person.objects.get(pk=user.pk).seen_at == first
    Person.objects.update(seen_at=first - timedelta(minutes=2))
    looks(client)
    assert Person.objects.get(pk=user.pk).seen_at > first - timedelta(minutes=1)
    Person.objects.update(seen_at=first - timedelta(minutes=2))
    client.get("/api/v1/runs", headers={"authorization": f"Bearer {ApiToken.issue(user)}"})
    assert Person.objects.get(pk=user.pk).seen_at > first - timedelta(minutes=1), "by a token"
