"""The address and lock of `up`."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from dashboard.hosting import Address, SiteLock, Unavailable
from dashboard.management.commands.up import _allowed_hosts


def test_loopback_is_reached_by_its_own_address() -> None:
    address = Address.bind("127.0.0.1", 0)
    with address.socket:
        assert address.is_loopback
        assert address.url() == f"http://127.0.0.1:{address.port}"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_an_ipv6_address_is_written_in_brackets() -> None:
    address = Address.bind("::1", 0)
    with address.socket:
        assert address.is_loopback
        assert address.url() == f"http://[::1]:{address.port}"


def test_all_interfaces_are_reached_by_the_machines_names(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.delenv("ALLOWED_HOSTS", raising=False)
    address = Address.bind("0.0.0.0", 0)
    with address.socket:
        assert not address.is_loopback
        assert address.names[0] == socket.gethostname()
        assert address.url() == f"http://{socket.gethostname()}:{address.port}"
        assert {*settings.ALLOWED_HOSTS, socket.gethostname(), "127.0.0.1"} <= set(_allowed_hosts(address))
        assert "*" not in _allowed_hosts(address)


def test_hosts_that_the_user_allowed_are_left_alone(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", "tune.example")
    settings.ALLOWED_HOSTS = ["tune.example"]
    address = Address.bind("0.0.0.0", 0)
    with address.socket:
        assert _allowed_hosts(address) == ["tune.example"]


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Unavailable, match="is in use"):
        Address.bind("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_reported(host: str) -> None:
    with pytest.raises(Unavailable, match=f"--host {host}: this machine has no such address"):
        Address.bind(host, 0)


def test_the_lock_has_one_holder_at_a_time_and_leaves_no_file(tmp_path: Path) -> None:
    with SiteLock(tmp_path) as lock:
        lock.tell("http://here:1")
        with pytest.raises(Unavailable, match=f"at http://here:1, process {os.getpid()}"), SiteLock(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []
    with SiteLock(tmp_path):
        pass


def test_the_lock_of_a_dead_process_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "up.lock").write_text('{"pid": 999999999, "url": "http://gone:1"}')
    assert SiteLock(tmp_path).read() == {}
