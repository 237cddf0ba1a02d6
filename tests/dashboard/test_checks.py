"""What the deployment check says of settings that don't fit each other."""

from __future__ import annotations

import os
from typing import Any

import pytest

from dashboard import checks


@pytest.mark.parametrize(
    ("https", "proxies", "warned"), [(True, [], True), (True, ["10.0.0.1/32"], False), (False, [], False)]
)
def test_a_proxy_that_is_not_listed_is_told(settings: Any, https: bool, proxies: list[str], warned: bool) -> None:
    settings.HTTPS, settings.PROXIES = https, proxies
    assert [message.id for message in checks.proxy_is_known()] == ["tuneboard.W003"] * warned


@pytest.mark.parametrize(("user", "warned"), [(0, True), (1000, False)])
def test_a_site_that_runs_as_root_is_warned(monkeypatch: pytest.MonkeyPatch, user: int, warned: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert [message.id for message in checks.not_root()] == ["tuneboard.W004"] * warned
