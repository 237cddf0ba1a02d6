"""Middleware runs in the request's thread."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from django.test import AsyncClient


@pytest.mark.django_db(transaction=True)
async def test_all_middleware_shares_one_switch_to_a_thread(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.MIDDLEWARE[-1] == "dashboard.http.middleware.in_one_thread"
    shared = await thread_switches(monkeypatch)
    settings.MIDDLEWARE = settings.MIDDLEWARE[:-1]
    assert shared <= await thread_switches(monkeypatch) - len(settings.MIDDLEWARE) / 2


async def thread_switches(monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a request switches from the event loop to a thread."""
    switches = []
    call = SyncToAsync.__call__

    async def counted(self: SyncToAsync[..., Any], *args: Any, **kwargs: Any) -> Any:
        switches.append(self.func)
        return await call(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(SyncToAsync, "__call__", counted)
        assert (await AsyncClient().get("/sign-in/")).status_code == 200
    return len(switches)
