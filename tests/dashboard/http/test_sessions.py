"""Whose cookie the browser is told to delete: that of who signs out, and not one that has been replaced."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client

from dashboard.people.sessions import end_sessions

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> User:
    return User.objects.create_user("ada", password="tensor intrinsics 8")


@pytest.fixture
def client(operator: User) -> Client:
    client = Client()
    client.force_login(operator)
    return client


@pytest.mark.parametrize("path", ["/api/v1/runs", "/runs/", "/sign-in/"])
def test_an_answer_to_an_old_cookie_doesnt_delete_the_new_one(path: str, client: Client, operator: User) -> None:
    """It may come after that with the new one, as when a password is changed in another tab."""
    end_sessions(operator)
    answer = client.get(path)
    assert answer.status_code in (200, 302, 401)
    assert settings.SESSION_COOKIE_NAME not in answer.cookies
    assert "Cookie" in answer["Vary"]


def test_signing_out_deletes_the_cookie(client: Client) -> None:
    assert client.post("/sign-out/").cookies[settings.SESSION_COOKIE_NAME].value == ""


def test_signing_in_replaces_an_old_cookie(client: Client, operator: User) -> None:
    end_sessions(operator)
    old = client.cookies[settings.SESSION_COOKIE_NAME].value
    answer = client.post("/sign-in/", {"username": operator.username, "password": "tensor intrinsics 8"})
    assert answer.cookies[settings.SESSION_COOKIE_NAME].value not in ("", old)
    assert client.session[SESSION_KEY] == str(operator.pk)
