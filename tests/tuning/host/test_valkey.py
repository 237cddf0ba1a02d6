"""The embedded Valkey serves only clients that know its password, which only this user can read."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import psutil
import pytest
from django.conf import settings
from kombu import Connection
from redis import AuthenticationError, Redis

from tuning.host import valkey


def said(commands: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(valkey.socket_path(settings.VAR)))
        client.sendall(commands)
        return client.recv(200)


@pytest.mark.parametrize("command", [b"PING", b"KEYS *", b"LPUSH device.cpu x", b"CONFIG GET requirepass", b"SHUTDOWN"])
def test_who_doesnt_know_the_password_can_do_nothing(command: bytes) -> None:
    assert said(command + b"\r\n").startswith(b"-NOAUTH")
    assert valkey.answers(settings.VAR)


def test_a_wrong_or_empty_password_is_refused() -> None:
    for password in ("guessed", "default", "x" * 10_000):
        with pytest.raises(AuthenticationError):
            Redis(unix_socket_path=str(valkey.socket_path(settings.VAR)), password=password).ping()
    assert said(b'AUTH ""\r\n').startswith(b"-WRONGPASS")


def test_clients_of_the_site_know_it() -> None:
    assert Redis.from_url(settings.REDIS_URL).ping()
    with Connection(settings.CELERY_BROKER_URL) as broker:
        broker.ensure_connection(max_retries=1)
        assert password() not in broker.as_uri()


def test_no_command_line_shows_it_and_only_this_user_can_read_it() -> None:
    assert len(password()) >= 40
    shown = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert any("valkey" in line for line in shown)
    assert not any(password() in line for line in shown)
    for name in ("valkey_password", "valkey.conf"):
        assert stat.S_IMODE((settings.VAR / name).stat().st_mode) == 0o600


def test_a_configuration_that_others_could_read_is_closed(tmp_path: Path) -> None:
    valkey.prepare(tmp_path)
    os.chmod(tmp_path / "valkey.conf", 0o644)  # noqa: PTH101 - what an earlier version left
    valkey.prepare(tmp_path)
    assert stat.S_IMODE((tmp_path / "valkey.conf").stat().st_mode) == 0o600


def password() -> str:
    return (settings.VAR / "valkey_password").read_text().strip()
