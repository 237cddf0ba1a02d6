"""Sessions whose keys nobody can read from the database."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from dashboard.models import Session
from dashboard.people.sessions import SessionStore, end_sessions
from tests.world import make_user

pytestmark = pytest.mark.django_db
COOKIE = settings.SESSION_COOKIE_NAME


def everything_stored() -> list[str]:
    """Each value of each row of each table, as text."""
    values: list[str] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            values += [str(value) for row in cursor.fetchall() for value in row]
    return values


def looks(key: str) -> int:
    browser = Client()
    browser.cookies[COOKIE] = key
    return browser.get("/account/").status_code


def sign_in(user: User) -> str:
    """Return the key that the browser gets."""
    browser = Client()
    browser.force_login(user)
    return browser.cookies[COOKIE].value


async def sign_in_async(user: User) -> str:
    browser = Client()
    await browser.aforce_login(user)
    return browser.cookies[COOKIE].value


@pytest.mark.parametrize("way", [sign_in, async_to_sync(sign_in_async)])
@pytest.mark.django_db(transaction=True)
def test_it_stores_nothing_with_which_one_can_sign_in(way: Any) -> None:
    key = way(make_user("operator"))
    assert looks(key) == 200
    values = everything_stored()
    assert Session.objects.get().pk in values
    assert [value for value in values if key in value] == []
    assert [value for value in values if value.isprintable() and ";" not in value and looks(value) == 200] == []


def test_a_row_with_the_key_itself_signs_nobody_in() -> None:
    key = sign_in(make_user("operator"))
    row = Session.objects.get()
    Session.objects.all().delete()
    row.session_key = key
    row.save(force_insert=True)
    assert looks(key) == 302


def test_signing_out_ends_the_session_of_the_cookie_only() -> None:
    user = make_user("operator")
    browser, other = Client(), sign_in(user)
    browser.force_login(user)
    key = browser.cookies[COOKIE].value
    browser.post("/sign-out/")
    assert [looks(key), looks(other)] == [302, 200]
    assert Session.objects.count() == 1


def test_all_but_one_session_of_a_user_can_be_ended() -> None:
    user = make_user("operator", "ada")
    keys = [sign_in(user) for _ in range(3)]
    stranger = sign_in(make_user("operator", "bob"))
    end_sessions(user, keep=keys[1])
    assert [looks(key) for key in (*keys, stranger)] == [302, 200, 302, 200]
    end_sessions(user)
    assert [looks(key) for key in (*keys, stranger)] == [302, 302, 302, 200]


def test_a_new_key_replaces_the_one_before() -> None:
    session = SessionStore()
    session["note"] = "stays"
    session.save()
    before = str(session.session_key)
    session.cycle_key()
    assert [session.exists(before), session.exists(str(session.session_key))] == [False, True]
    assert SessionStore(session.session_key)["note"] == "stays"
    assert SessionStore(before).get("note") is None


def test_the_asynchronous_methods_store_no_key_either() -> None:
    async def begin() -> str:
        session = SessionStore()
        await session.aset("note", "stays")
        await session.asave()
        return str(session.session_key)

    async def look_and_end(key: str) -> tuple[Any, bool, bool]:
        note, exists = await SessionStore(key).aget("note"), await SessionStore().aexists(key)
        await SessionStore().adelete(key)
        return note, exists, await SessionStore().aexists(key)

    key = async_to_sync(begin)()
    assert [value for value in everything_stored() if key in value] == []
    assert async_to_sync(look_and_end)(key) == ("stays", True, False)
