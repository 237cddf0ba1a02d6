"""A client's address: its own behind proxies, and never one that it chose."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.http.gate import behind_proxies

PROXY, INNER, CLIENT, FORGED = "10.0.0.5", "192.168.7.9", "203.0.113.7", "198.51.100.1"


async def seen(proxies: list[str], peer: str, *headers: tuple[str, str], kind: str = "http") -> tuple[str, str]:
    """The client's address and the scheme that the application sees."""
    found: list[tuple[str, str]] = []

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    scheme = "ws" if kind == "websocket" else "http"
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": kind, "scheme": scheme, "client": (peer, 40000), "headers": encoded}
    await behind_proxies(application, proxies)(scope, None, None)
    return found[0]


def forwarded(*addresses: str) -> tuple[str, str]:
    return ("x-forwarded-for", ", ".join(addresses))


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("proxies", [[], [PROXY], ["10.0.0.0/24"]])
async def test_a_client_cannot_choose_its_address_or_scheme(proxies: list[str], kind: str) -> None:
    shown = await seen(proxies, CLIENT, forwarded(FORGED), ("x-forwarded-proto", "https"), kind=kind)
    assert shown == (CLIENT, "ws" if kind == "websocket" else "http")
    for header in ("x-real-ip", "forwarded", "x-client-ip", "true-client-ip"):
        assert (await seen([PROXY], PROXY, (header, FORGED), forwarded(CLIENT)))[0] == CLIENT


@pytest.mark.parametrize("proxy", [PROXY, "10.0.0.0/24"])
async def test_a_proxy_is_believed(proxy: str) -> None:
    assert await seen([proxy], PROXY, forwarded(CLIENT), ("x-forwarded-proto", "https")) == (CLIENT, "https")
    assert await seen([proxy], PROXY, forwarded(CLIENT), ("x-forwarded-proto", "https"), kind="websocket") == (
        CLIENT,
        "wss",
    )
    assert await seen([proxy], PROXY) == (PROXY, "http"), "the proxy itself, for its health check"


async def test_what_the_client_wrote_before_the_proxy_does_not_count() -> None:
    assert (await seen([PROXY], PROXY, forwarded(FORGED, CLIENT)))[0] == CLIENT
    assert (await seen([PROXY], PROXY, forwarded(PROXY, CLIENT)))[0] == CLIENT
    assert (await seen([PROXY], PROXY, forwarded(FORGED), forwarded(CLIENT)))[0] == CLIENT, "a header of its own"
    assert (await seen([PROXY], PROXY, forwarded("", "nonsense", CLIENT)))[0] == CLIENT


async def test_a_chain_of_proxies_leads_to_the_client() -> None:
    chain = [PROXY, INNER]
    assert (await seen(chain, PROXY, forwarded(FORGED, CLIENT, INNER)))[0] == CLIENT
    assert (await seen([PROXY], PROXY, forwarded(CLIENT, INNER)))[0] == INNER, "one that isn't listed is a client"
    assert (await seen(chain, PROXY, forwarded(f"{CLIENT}:51234", INNER)))[0] == CLIENT
    assert (await seen(chain, PROXY, forwarded("2001:db8::1", INNER)))[0] == "2001:db8::1"
