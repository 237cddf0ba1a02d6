"""What the deployment check says of settings that don't fit each other."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard import checks


@pytest.mark.parametrize(
    ("https", "proxies", "warned"), [(True, [], True), (True, ["10.0.0.1/32"], False), (False, [], False)]
)
def test_a_proxy_that_is_not_listed_is_told(settings: Any, https: bool, proxies: list[str], warned: bool) -> None:
    settings.HTTPS, settings.PROXIES = https, proxies
    assert [message.id for message in checks.proxy_is_known()] == ["tuneboard.W003"] * warned
