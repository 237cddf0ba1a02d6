"""The limit on bodies, at the ASGI server's own messages: what is over it is never read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator

from dashboard.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)
CHUNK = 64 * 1024


@pytest.fixture(autouse=True)
def small_limit(settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * CHUNK


async def send(
    chunks: int, path: str = "/api/v1/runs", headers: dict[str, str] | None = None
) -> tuple[Any, bytes, int]:
    """The answer's start and body, and how many chunks nobody took."""
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


async def test_it_stops_reading_a_body_of_unannounced_length() -> None:
    start, body, left = await send(100)
    assert start["status"] == 413
    assert json.loads(body)["error"]["code"] == "too_large"
    assert left > 90


async def test_it_believes_no_announced_length() -> None:
    start, _, left = await send(100, headers={"content-length": "10"})
    assert start["status"] == 413
    assert left > 90


async def test_it_lets_a_body_within_the_limit_through() -> None:
    start, _, _ = await send(4)
    assert start["status"] == 401  # nobody is signed in


async def test_it_refuses_on_pages_in_words() -> None:
    start, body, _ = await send(5, path="/sign-in/")
    assert start["status"] == 413
    assert body.startswith(b"The body is too large")
    assert b"content-security-policy" in {name.lower() for name, _ in start["headers"]}
