"""Odd requests to every route and operation: each gets an answer that isn't an internal error."""

from __future__ import annotations

import json
import random
import re
import socket
from contextlib import closing
from functools import cache
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.urls import get_resolver
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from dashboard.api import api
from tests.faults.seeds import repeated_by, seed
from tests.live import LiveSite
from tests.test_anonymous import METHODS, filled, routes
from tests.world import make_compilation, make_extraction, make_network, make_user, measured_run
from tuning.engines.wire.errors import Refused
from tuning.host import sandbox

REFUSED = "Nothing is read in this test."
EVERYDAY, ALL = 300, 10_000
ODD_TEXTS = [
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ud800",
    "9" * 400,
    "-1",
    "1e400",
    "NaN",
    "inf",
    "null",
    "[]",
    "{}",
    "1,2",
    "٣",
    "\u202e",
]
ODD_TEXTS += [
    "..",
    "../../etc/passwd",
    "%00",
    "%ff",
    "'",
    '"',
    "<script>",
    "=1+1",
    "\r\nX: y",
    "a" * 3000,
    "1" * 19,
    "0x1",
    "1_0",
]
GOOD_TEXTS = [
    "1",
    "2",
    "this",
    "mlp",
    "matmul",
    "cpu",
    "llvm",
    "running",
    "name",
    "-name",
    "latency",
    "true",
    "number",
    "task",
]
PAGE_FIELDS = [
    "runs",
    "action",
    "tags",
    "tag",
    "untag",
    "undo",
    "target",
    "notes",
    "here",
    "revision",
    "name",
    "trials",
]
PAGE_FIELDS += [
    "time_limit_s",
    "next",
    "username",
    "password",
    "sesame",
    "cursor",
    "trial",
    "extraction",
    "baseline",
    "file",
]
HEADERS = [
    "Accept",
    "Accept-Language",
    "Accept-Encoding",
    "If-None-Match",
    "If-Modified-Since",
    "Range",
    "HX-Request",
    "Referer",
]
HEADERS += [
    "HX-Target",
    "HX-Current-URL",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "Origin",
    "Cookie",
    "X-HTTP-Method-Override",
]
KINDS = [
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "text/plain",
    "",
    ";",
    "a/b; charset=x",
]

texts = st.sampled_from(ODD_TEXTS) | st.sampled_from(GOOD_TEXTS) | st.text(max_size=30)
numbers = st.integers() | st.floats() | st.sampled_from([0, 1, 2, -1, 2**31, 2**63, -(2**63) - 1, 10**30])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@cache
def operations() -> list[tuple[str, str]]:
    """Each route with each method, parameters filled in."""
    return [
        (method, path) for path in sorted({filled(route) for route in routes(get_resolver())}) for method in METHODS
    ]


@cache
def known_names() -> tuple[list[str], list[str]]:
    """Names of query parameters and of fields of bodies."""
    schema = json.loads(json.dumps(api.get_openapi_schema()))
    found = [operation for path in schema["paths"].values() for operation in path.values()]
    queries = {one["name"] for operation in found for one in operation.get("parameters", []) if one["in"] == "query"}
    text = json.dumps([operation.get("requestBody") for operation in found])
    return sorted({*queries, *PAGE_FIELDS}), sorted({*re.findall(r'"(\w+)": {"', text), *PAGE_FIELDS})


@st.composite
def requests(draw: Any) -> tuple[str, str, str, bytes, str, dict[str, str]]:
    """Method, path, query, body, content type, headers."""
    method, path = draw(st.sampled_from(operations()))
    queries, fields = known_names()
    if draw(st.integers(0, 5)) == 0:
        path = path.replace("/1/", f"/{draw(st.sampled_from(['0', '2', '-1', '9' * 30, '%00', 'x', '1%2f']))}/")
    query = urlencode(
        draw(st.lists(st.tuples(st.sampled_from(queries) | texts, texts), max_size=4)), errors="surrogatepass"
    )
    kind = draw(st.sampled_from(["application/json"] * 4 + KINDS))
    body = _body(draw, kind, fields)
    headers = draw(st.dictionaries(st.sampled_from(HEADERS), texts, max_size=2))
    safe = {name: re.sub(r"[^ -~]", "?", value) for name, value in headers.items()}
    return method, path, query, body, kind, safe


def _body(draw: Any, kind: str, fields: list[str]) -> Any:
    """Bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(
            st.binary(max_size=60) | st.sampled_from([b"[" * 10**5, b'{"a":' * 5000, b'"\\ud800"', b"\xff\xfe"])
        )
    names = st.sampled_from(fields) | texts
    if "json" in kind:
        return json.dumps(draw(st.dictionaries(names, values, max_size=5) | values)).encode()
    pairs = draw(st.lists(st.tuples(names, texts), max_size=5))
    if "multipart" in kind:
        return b"".join(_part(name, value, draw(st.booleans())) for name, value in pairs) + draw(
            st.sampled_from([b"--b--\r\n", b"", b"--b", b"--b\r\n\r\n"])
        )
    return urlencode(pairs, errors="surrogatepass").encode()


def _part(name: str, value: str, is_file: bool) -> bytes:
    file = f'; filename="{value[:40]}"' if is_file else ""
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n{value}\r\n'.encode(errors="replace")


@pytest.fixture
def client(db: None, monkeypatch: pytest.MonkeyPatch) -> Client:
    """An admin's. Models and targets, for each of which a process would load TVM, are refused."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Refused(REFUSED)

    monkeypatch.setattr(sandbox, "ask_once", refuse)
    run = measured_run(pk=1)
    make_compilation(run, pk=1)
    make_extraction(make_network(), pk=1)
    client = Client(raise_request_exception=False)
    client.force_login(make_user("admin"))
    return client


def answer(client: Client, request: tuple[str, str, str, bytes, str, dict[str, str]]) -> None:
    method, path, query, body, kind, headers = request
    with transaction.atomic():  # Each request finds the same world.
        response = client.generic(method, path, body, kind, QUERY_STRING=query, headers=headers)
        content = b"".join(response) if response.streaming else response.content
        transaction.set_rollback(True)
    assert response.status_code < 500 or REFUSED.encode() in content, (request, content[:300])
    if response.status_code >= 400 and path.startswith("/api/v1/") and method != "HEAD":
        error = json.loads(content)["error"]
        assert error["code"], request
        assert error["message"], request


def many(client: Client, examples: int) -> None:
    """As many random requests, on one world."""
    number = seed()

    @seeded(number)
    @settings(max_examples=examples, database=None, suppress_health_check=list(HealthCheck))
    @given(requests())
    def check(request: tuple[str, str, str, bytes, str, dict[str, str]]) -> None:
        answer(client, request)

    try:
        check()
    except BaseException:
        print(repeated_by(number))  # noqa: T201  shown with the failure
        raise


def test_odd_requests_are_answered(client: Client) -> None:
    many(client, EVERYDAY)


@pytest.mark.rare
def test_thousands_of_odd_requests_are_answered(client: Client) -> None:
    many(client, ALL)


def raw(dice: random.Random, token: str, host: str) -> bytes:
    """The bytes of a request, with a few of them changed."""
    path = dice.choice(operations())[1]
    body = json.dumps({"network": "mlp", "trials": dice.choice([1, "x", None])}).encode()
    head = (
        f"{dice.choice(METHODS)} {path}?{dice.choice(['', 'limit=1', 'after=%ff'])} HTTP/1.1\r\nHost: {host}\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {dice.choice([len(body), 0, len(body) - 1, -1, 10**30])}\r\nConnection: close\r\n"
    )
    more = dice.choice(
        ["", "Transfer-Encoding: chunked\r\n", "A" * 70_000 + ": 1\r\n", "\x00: 1\r\n", "Upgrade: websocket\r\n"]
    )
    changed = bytearray(head.encode() + more.encode() + b"\r\n" + body)
    for _ in range(dice.choice((0, 0, 1, 3))):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def send(site: LiveSite, data: bytes) -> bytes:
    """What the site answers before it closes the connection, or until nothing more is sent to it."""
    place = urlsplit(site.url)
    with closing(socket.create_connection((str(place.hostname), place.port or 80), timeout=30)) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except (BrokenPipeError, ConnectionResetError):
            return b""


def check_raw(site: LiveSite, count: int) -> None:
    number = seed()
    dice = random.Random(number)
    (web,) = site.processes("dashboard.serve")
    token, host = site.token("viewer"), urlsplit(site.url).netloc
    for _ in range(count):
        data = raw(dice, token, host)
        status = send(site, data)[:12]
        assert not re.match(rb"HTTP/1.1 5", status), (repeated_by(number), status, data[:600])
    assert web.is_running()
    assert site.answers()


def test_mangled_requests_end_no_process(live_site: LiveSite) -> None:
    check_raw(live_site, 100)


@pytest.mark.rare
def test_thousands_of_mangled_requests_end_no_process(live_site: LiveSite) -> None:
    check_raw(live_site, 5_000)
