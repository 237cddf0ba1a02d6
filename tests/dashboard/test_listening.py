"""What a connection may cost before its request begins, tried with raw sockets on a real server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from dashboard import listening
from dashboard.listening import HEAD_BYTES, PatientProtocol


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, on `/late` after some seconds, and answers with its length."""
    if scope["path"] == "/late":
        await asyncio.sleep(2.5)
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    body = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(listening, "HEAD_S", 1.0)
    monkeypatch.setattr(listening, "BODY_S", 1.0)
    monkeypatch.setattr(listening, "TICK_S", 0.1)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, http=PatientProtocol, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(30)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def is_answered(client: socket.socket, body: bytes) -> bool:
    """Whether the server says this. Head and body may come one after the other."""
    said = b""
    while not said.endswith(b"\r\n\r\n" + body) and (more := client.recv(1000)):
        said += more
    return said.endswith(b"\r\n\r\n" + body)


def until_closed(client: socket.socket) -> bytes:
    said = b""
    try:
        while data := client.recv(65536):
            said += data
    except ConnectionResetError:
        pass
    return said


def dribbled(client: socket.socket, byte: bytes) -> bytes:
    """What the server says, and that it closes, while a byte arrives now and then."""
    client.settimeout(0.05)
    said = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            client.sendall(byte)
            data = client.recv(65536)
            if not data:
                return said
            said += data
        except TimeoutError:
            continue
        except OSError:
            return said
    raise AssertionError("the connection stays open")


def test_a_request_is_answered_and_the_connection_kept(port: int) -> None:
    with connected(port) as client:
        for _ in range(3):
            client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc")
            assert is_answered(client, b"3")


def test_who_says_nothing_is_cut_off(port: int) -> None:
    with connected(port) as client:
        assert until_closed(client).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nhost: x\r\nx-"])
def test_a_head_that_dribbles_is_cut_off(port: int, start: bytes) -> None:
    with connected(port) as client:
        client.sendall(start)
        assert dribbled(client, b"a").startswith(b"HTTP/1.1 408 ")


def test_so_is_one_after_a_request_on_the_same_connection(port: int) -> None:
    with connected(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert is_answered(client, b"0")
        client.sendall(b"GET / HTTP/1.1\r\nx-")
        assert b"HTTP/1.1 408 " in dribbled(client, b"a")


@pytest.mark.parametrize("announced", [b"content-length: 100000000", b"transfer-encoding: chunked"])
def test_a_body_that_dribbles_is_cut_off(port: int, announced: bytes) -> None:
    with connected(port) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\n" + announced + b"\r\n\r\n")
        byte = b"1\r\na\r\n" if b"chunked" in announced else b"a"
        assert dribbled(client, byte) == b""


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nx: " + b"a" * HEAD_BYTES,
        b"GET /" + b"a" * HEAD_BYTES,
        b"GET / HTTP/1.1\r\n" + b"a" * HEAD_BYTES,
        b"GET /" + b"a" * (HEAD_BYTES // 2) + b" HTTP/1.1\r\nx: " + b"b" * (HEAD_BYTES // 2) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: %s\r\n" % (n, b"y" * 1000) for n in range(80)) + b"\r\n",
    ],
    ids=["value", "path", "name", "path and value", "number", "sum"],
)
def test_a_large_head_is_refused(port: int, head: bytes) -> None:
    with connected(port) as client:
        with contextlib.suppress(OSError):
            client.sendall(head)
        assert until_closed(client).startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


def test_a_large_head_never_reaches_the_application(port: int) -> None:
    with connected(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 101 + b"\r\n")
        assert b" 200 " not in until_closed(client)


def test_others_are_served_meanwhile(port: int) -> None:
    slow = [connected(port) for _ in range(50)]
    with connected(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert is_answered(client, b"0")
    for one in slow:
        one.close()


def test_a_body_that_nobody_reads_yet_isnt_slow(port: int) -> None:
    """An upload that waits for its turn."""
    size = 10_000_000
    with connected(port) as client:
        sender = threading.Thread(
            target=client.sendall,
            args=(b"POST /late HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size,),
        )
        sender.start()
        assert is_answered(client, b"%d" % size)
        sender.join(30)
