"""The limit on request bodies, applied to ASGI messages: nothing beyond it is kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.conf import settings
from django.test import Client

from dashboard.asgi import application
from dashboard.models import ApiToken
from tests.world import make_user
from tuning.host import admission

pytestmark = pytest.mark.django_db(transaction=True)
CHUNK = 64 * 1024


@pytest.fixture(autouse=True)
def small_limit(settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * CHUNK


async def send(
    chunks: int, path: str = "/api/v1/runs", headers: dict[str, str] | None = None
) -> tuple[Any, bytes, int]:
    """The response's start and body, and how many chunks weren't read."""
    given = {"host": "testserver", "content-type": "application/json"} | (headers or {})
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    client = ApplicationCommunicator(application, scope)
    for _ in range(chunks):
        await client.send_input({"type": "http.request", "body": b"x" * CHUNK, "more_body": True})
    await client.send_input({"type": "http.request", "body": b"", "more_body": False})
    start = await client.receive_output(10)
    body = await client.receive_output(10)
    await client.wait(10)
    return start, body["body"], client.input_queue.qsize()


async def test_it_stops_reading_a_body_without_content_length() -> None:
    start, body, left = await send(100)
    assert start["status"] == 413
    assert json.loads(body)["error"]["code"] == "too_large"
    assert left > 90


async def test_it_does_not_trust_the_content_length() -> None:
    start, _, left = await send(100, headers={"content-length": "10"})
    assert start["status"] == 413
    assert left > 90


async def test_it_reads_and_discards_a_body_declared_as_too_large() -> None:
    start, body, left = await send(100, headers={"content-length": str(100 * CHUNK)})
    assert start["status"] == 413
    assert json.loads(body)["error"]["code"] == "too_large"
    assert left == 0, "a client that is cut off while sending never sees the reason"


async def test_it_does_not_read_a_body_declared_as_huge() -> None:
    start, _, left = await send(100, headers={"content-length": str(10**10)})
    assert start["status"] == 413
    assert left > 90


async def test_it_passes_on_a_body_within_the_limit() -> None:
    start, _, _ = await send(4)
    assert start["status"] == 401  # nobody is signed in


async def test_pages_get_a_text_error() -> None:
    start, body, _ = await send(5, path="/sign-in/")
    assert start["status"] == 413
    assert body.startswith(b"The body is too large")
    assert b"content-security-policy" in {name.lower() for name, _ in start["headers"]}


class TestUploads:
    """Users who may upload have a higher limit."""

    PATH = "/api/v1/networks"

    @pytest.fixture(autouse=True)
    def one_mebibyte(self, settings: Any) -> None:
        settings.UPLOAD_MB = 1  # plus one for the multipart envelope

    @staticmethod
    @database_sync_to_async
    def bearer(role: str) -> dict[str, str]:
        return {"authorization": f"Bearer {ApiToken.issue(make_user(role))}"}

    @staticmethod
    @database_sync_to_async
    def session(role: str) -> dict[str, str]:
        client = Client()
        client.force_login(make_user(role))
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
        return {"cookie": f"theme=dark; {cookie.key}={cookie.value}"}

    async def test_an_operators_upload_is_read_completely(self) -> None:
        for headers in (await self.bearer("operator"), await self.session("admin")):
            start, _, left = await send(20, self.PATH, headers)
            assert start["status"] in (403, 422), "422: no model in the body; 403: no CSRF token"
            assert left == 0

    async def test_it_stops_reading_at_the_limit_of_uploads(self) -> None:
        start, body, left = await send(100, self.PATH, await self.bearer("operator"))
        assert start["status"] == 413
        assert json.loads(body)["error"]["code"] == "too_large"
        assert 60 < left < 70

    async def test_other_users_have_the_usual_limit(self) -> None:
        for headers in ({}, {"authorization": "Bearer guessed"}, await self.bearer("viewer"), {"cookie": "x=1"}):
            start, _, left = await send(100, self.PATH, headers)
            assert start["status"] in (401, 403)
            assert left > 90

    @staticmethod
    @database_sync_to_async
    def key_of(headers: dict[str, str]) -> int:
        owner = ApiToken.objects.owner_of(headers["authorization"].split()[1])
        assert owner
        return owner.pk

    async def test_beyond_the_places_an_upload_waits_unread_and_is_then_told_to_come_back(
        self, monkeypatch: pytest.MonkeyPatch, settings: Any
    ) -> None:
        settings.UPLOADS_PER_USER = 1
        monkeypatch.setattr(admission, "PATIENCE_S", 0.3)
        headers = await self.bearer("operator")
        key = await self.key_of(headers)
        announced = {"content-length": str(33 << 20), "content-type": "multipart/form-data; boundary=x"}
        settings.UPLOAD_MB = 100
        with admission.uploads.ticket(key) as held:
            held.enter(0)
            start, body, left = await send(100, self.PATH, headers | announced)
            assert start["status"] == 429
            assert dict(start["headers"])[b"retry-after"] == b"60"
            error = json.loads(body)["error"]
            assert (error["code"], left) == ("too_many", 101)
            assert error["message"].startswith("You already have 1 uploads in progress")
            others = await self.bearer("admin")
            start, _, _ = await send(1, self.PATH, others)
            assert start["status"] == 422, "others upload meanwhile"
        start, _, _ = await send(1, self.PATH, headers)
        assert start["status"] == 422

    async def test_others_uploads_are_no_fault_of_ones_own(
        self, monkeypatch: pytest.MonkeyPatch, settings: Any
    ) -> None:
        settings.UPLOADS = 1
        monkeypatch.setattr(admission, "PATIENCE_S", 0.3)
        with admission.uploads.ticket(0) as held:
            held.enter(0)
            start, body, left = await send(10, self.PATH, await self.bearer("operator"))
        assert start["status"] == 503
        assert "The site already has 1 uploads" in json.loads(body)["error"]["message"]
        assert left == 0, "a small body is discarded, so that the client sees the reason"

    async def test_an_upload_that_waits_goes_on_once_there_is_a_place(self, settings: Any) -> None:
        settings.UPLOADS = 1
        headers = await self.bearer("operator")
        held = admission.uploads.ticket(0)
        held.enter(0)
        waiting = asyncio.create_task(send(1, self.PATH, headers))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        held.close()
        start, _, _ = await waiting
        assert start["status"] == 422

    async def test_strangers_take_no_place(self, settings: Any) -> None:
        settings.UPLOADS = 1
        with admission.uploads.ticket(0) as held:
            held.enter(0)
            for headers in ({}, {"authorization": "Bearer guessed"}, await self.bearer("viewer")):
                start, _, _ = await send(1, self.PATH, headers)
                assert start["status"] in (401, 403)
