"""The system page says what was measured, to admins only."""

from __future__ import annotations

import platform
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from tests.storage_fixtures import use
from tests.world import make_user
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.question import InForce
from tuning.host import admission, sandbox
from tuning.storage import Store

pytestmark = pytest.mark.django_db
MEASURED = "/admin/system/?part=measured"


def client_of(role: str) -> Client:
    client = Client()
    client.force_login(make_user(role))
    return client


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_admins_see_it(role: str) -> None:
    for path in ("/admin/system/", MEASURED):
        assert client_of_named(role, path).get(path).status_code == 403
    assert "/admin/system/" not in client_of_named(role, "x").get("/runs/").text


def client_of_named(role: str, name: str) -> Client:
    client = Client()
    client.force_login(make_user(role, f"{role}-{len(name)}"))
    return client


def test_it_tells_versions_folder_and_settings_without_secrets(settings: Any) -> None:
    settings.WEBHOOKS = ["https://chat.example/hooks/secret-key"]
    page = client_of("admin").get("/admin/system/").text
    assert platform.python_version() in page
    assert "Valkey " in page
    assert str(settings.VAR) in page
    assert "0700" in page
    for secret in (settings.SECRET_KEY, settings.REDIS_URL, "secret-key"):
        assert secret not in page


def test_it_tells_how_much_is_stored_and_what_is_elsewhere(
    shared: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "in_force", lambda: InForce(None, None, None))
    shared.append(settings.VAR / "runs" / "1-20260101T000000.000000" / "console.log", 0, b"x" * 1000)
    client = client_of("admin")
    assert "1 file with 1000\xa0bytes, compressed 19\xa0bytes in the database" in client.get(MEASURED).text
    use(settings, None)
    page = client.get(MEASURED).text
    assert "1 file isn&#x27;t where TUNEBOARD_STORAGE says" in page
    assert "manage.py move_files" in page


def test_it_counts_what_goes_on() -> None:
    with admission.uploads.ticket(12345) as ticket:
        ticket.enter(0)
        places = client_of("admin").get("/admin/system/").context["places"]
    assert [(place.now, place.waiting, place.in_all) for place in places] == [
        (0, 0, settings.INSPECTIONS),
        (1, 0, settings.UPLOADS),
        (0, 0, settings.SOCKETS),
    ]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (InForce("Landlock 7", "network namespace", "process namespace, at most 9", "password"), "at most 9"),
        (InForce("Landlock 7", None, None, metadata="read-only mounts"), "read-only mounts"),
        (InForce("Landlock 7", None, None, calls="system call filter"), "system call filter"),
        (InForce("Landlock 7", None, None, ipc="IPC namespace"), "IPC namespace"),
        (InForce(None, None, None), "not confined: it reads the site’s data"),
        (InForce(None, None, None), "not confined: it changes those of the site’s user"),
        (Refused("TVM <crashed>"), "Not measured: TVM &lt;crashed&gt;"),
    ],
)
def test_it_says_what_confines_processes(monkeypatch: pytest.MonkeyPatch, found: Any, words: str) -> None:
    def in_force() -> InForce:
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, InForce)
        return found

    monkeypatch.setattr(sandbox, "in_force", in_force)
    assert words in client_of("admin").get(MEASURED).text


def test_it_shows_warnings_of_the_deployment_check(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(sandbox, "in_force", lambda: InForce(None, None, None))
    settings.DEBUG = True
    said = [warning for warning, _ in client_of("admin").get(MEASURED).context["warnings"]]
    assert "Cookies are sent over plain HTTP, too." in " ".join(said)
    assert any(text.startswith("DEBUG is on") for text in said)
    assert len(said) == len(set(said))


def test_it_measures_for_real() -> None:
    found = client_of("admin").get(MEASURED)
    assert found.status_code == 200
    assert found.context["in_force"] == sandbox.in_force()
    assert found.context["folder_bytes"] > 0
