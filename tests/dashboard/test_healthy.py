"""`python -m dashboard.healthy` tells whether the site on a port is healthy."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from dashboard.healthy import a_host
from tests.live import ROOT, LiveSite, free_port


class Answer(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        known = (self.path, self.headers["Host"]) == ("/healthz", "tune.example")
        self.send_response(self.status if known else 400)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def check(port: int, hosts: str) -> int:
    command = [sys.executable, "-m", "dashboard.healthy", str(port)]
    return subprocess.run(command, cwd=ROOT, env={"ALLOWED_HOSTS": hosts}, check=False, capture_output=True).returncode


@pytest.mark.parametrize(("status", "result"), [(200, 0), (503, 1), (500, 1), (302, 1)])
def test_it_fails_unless_the_site_says_that_it_is_well(
    port: int, status: int, result: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answer, "status", status)
    assert check(port, "tune.example,other.example") == result


def test_it_fails_if_nothing_answers() -> None:
    assert check(free_port(), "localhost") == 1


def test_it_finds_the_real_site_healthy(live_site: LiveSite) -> None:
    assert check(live_site.port, "127.0.0.1,localhost") == 0


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        ("", "localhost"),
        ("*", "localhost"),
        (".tune.example", "tune.example"),
        (" tune.example , localhost", "tune.example"),
    ],
)
def test_it_asks_for_a_host_that_the_site_accepts(hosts: str, host: str) -> None:
    assert a_host({"ALLOWED_HOSTS": hosts}) == host
    assert a_host({}) == "localhost"
