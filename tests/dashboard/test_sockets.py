"""The run's socket, with the whole ASGI application, the real channel layer and the database."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from redis.asyncio import Redis

from dashboard import consumers
from dashboard.consumers import RunConsumer
from dashboard.people import managing
from tests.sockets import Socket
from tests.world import make_run, make_user, measured_run, record_trials
from tuning.actions import members, projects
from tuning.host import admission, valkey
from tuning.models import Membership, Project, Run
from tuning.notify.announce import announce, announce_status

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client(transactional_db: None, client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


@pytest.fixture
def run(transactional_db: None) -> Run:
    return measured_run()


@asynccontextmanager
async def joined(client: Client, run: Run) -> AsyncIterator[Socket]:
    """An accepted socket; the state hasn't been read yet."""
    opened = Socket(client, f"/ws/runs/{run.pk}/")
    assert await opened.connect()
    yield opened
    await opened.close()


@contextmanager
def own_valkey(folder: Path) -> Iterator[None]:
    """A Valkey of its own, which the test may kill."""
    valkey.prepare(folder)
    with subprocess.Popen(valkey.command(folder), stdout=subprocess.DEVNULL) as server:
        while not valkey.answers(folder):
            assert server.poll() is None
        yield
        server.kill()


async def subscribed_again(folder: Path) -> None:
    async with Redis.from_url(valkey.url(folder)) as redis:
        while not await redis.pubsub_channels("*run.*"):  # noqa: ASYNC110 - Valkey sends no event for it
            await asyncio.sleep(0.05)


def announce_trials(run: Run, trials: list[tuple[int, float | None]]) -> dict[str, Any]:
    delta = record_trials(run, trials)
    announce(run.pk, delta)
    shown: dict[str, Any] = json.loads(json.dumps(delta))
    return shown


async def test_it_sends_the_state_on_connecting(client: Client, run: Run) -> None:
    async with joined(client, run) as opened:
        shown = await opened.read()
    expected = await database_sync_to_async(run.to_full_dict)()
    assert shown == {"type": "state", "last": 3, "run": json.loads(json.dumps(expected))}
    assert len(shown["run"]["tasks"]) == 2


async def test_it_forwards_deltas_in_order(client: Client, run: Run) -> None:
    async with joined(client, run) as opened:
        await opened.read()
        sent = [await database_sync_to_async(announce_trials)(run, [(0, 1e-3)]) for _ in range(3)]
        shown = [await opened.read() for _ in range(3)]
    assert [(delta["after"], delta["last"]) for delta in shown] == [(3, 4), (4, 5), (5, 6)]
    assert shown == sent


async def test_no_delta_is_lost_while_the_state_is_read(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_state = RunConsumer.state_of

    def state_while_trials_arrive(consumer: RunConsumer, key: int) -> str | None:
        state = read_state(consumer, key)
        announce_trials(run, [(0, 1e-3)])
        return state

    monkeypatch.setattr(RunConsumer, "state_of", state_while_trials_arrive)
    async with joined(client, run) as opened:
        state, delta = await opened.read(), await opened.read()
    assert (state["type"], state["last"]) == ("state", 3)
    assert (delta["type"], delta["after"], delta["last"]) == ("delta", 3, 4)


async def test_it_sends_a_change_of_status(client: Client, run: Run) -> None:
    def stop() -> None:
        run.move(Run.Status.RUNNING, to=Run.Status.STOPPING)
        announce_status(run)

    async with joined(client, run) as opened:
        await opened.read()
        await database_sync_to_async(stop)()
        delta = await opened.read()
    assert (delta["run"]["status"], delta["after"], delta["last"]) == ("stopping", 3, 3)


async def test_it_sends_only_its_own_run(client: Client, run: Run) -> None:
    other = await database_sync_to_async(make_run)(device="other")
    async with joined(client, run) as opened:
        await opened.read()
        await database_sync_to_async(announce_status)(other)
        await database_sync_to_async(announce_status)(run)
        assert (await opened.read())["run"]["id"] == run.pk


async def test_it_sends_to_every_watcher(client: Client, run: Run) -> None:
    async with joined(client, run) as one, joined(client, run) as two:
        await one.read()
        await two.read()
        await database_sync_to_async(announce_status)(run)
        assert await one.read() == await two.read()


async def test_it_ignores_what_the_browser_sends(client: Client, run: Run) -> None:
    async with joined(client, run) as opened:
        await opened.read()
        await opened.write(text="{not json")
        await opened.write(bytes=b"\xff")
        await database_sync_to_async(announce_status)(run)
        assert (await opened.read())["type"] == "delta"


async def test_it_reports_an_unknown_run(client: Client) -> None:
    opened = Socket(client, "/ws/runs/404/")
    assert await opened.connect()
    assert await opened.closing_code() == 4404


@pytest.mark.parametrize("kind", ["runs", "compilations"])
async def test_a_number_of_any_length_opens_no_socket(client: Client, kind: str) -> None:
    longest = Socket(client, f"/ws/{kind}/{'9' * 18}/")
    assert await longest.connect()
    assert await longest.closing_code() == 4404
    for number in (str(2**63), "9" * 30, "9" * 6000):
        assert not await Socket(client, f"/ws/{kind}/{number}/").connect()


@pytest.mark.parametrize("path", ["/ws/", "/ws/runs/", "/ws/runs/x/", "/ws/runs/1", "/runs/1/", "/"])
async def test_it_refuses_an_unknown_path(client: Client, path: str) -> None:
    assert not await Socket(client, path).connect()


async def test_it_refuses_anonymous_users(run: Run) -> None:
    assert not await Socket(None, f"/ws/runs/{run.pk}/").connect()


async def test_it_refuses_users_without_a_role(client: Client, run: Run) -> None:
    stranger = await database_sync_to_async(User.objects.create_user)("stranger")
    await database_sync_to_async(client.force_login)(stranger)
    assert not await Socket(client, f"/ws/runs/{run.pk}/").connect()


async def test_it_refuses_a_session_that_has_ended(client: Client, run: Run) -> None:
    old = Client()
    old.cookies["tuneboard_session"] = client.cookies["tuneboard_session"].value
    await database_sync_to_async(client.logout)()
    assert not await Socket(old, f"/ws/runs/{run.pk}/").connect()


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        "http://testserver.evil.example",
        "http://testserver:8080",  # another program on this machine: ports share cookies
        "https://testserver",
        "http://localhost",
    ],
)
async def test_it_refuses_other_origins(client: Client, run: Run, origin: str | None) -> None:
    assert not await Socket(client, f"/ws/runs/{run.pk}/", origin=origin).connect()


@pytest.mark.parametrize("host", ["evil.example", "", "testserver.evil.example", "test server"])
async def test_it_refuses_an_unknown_host(client: Client, run: Run, host: str) -> None:
    opened = Socket(client, f"/ws/runs/{run.pk}/", host=host, origin=f"http://{host}")
    assert not await opened.connect()


async def test_it_accepts_a_trusted_origin(client: Client, run: Run, settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://tuning.example"]
    opened = Socket(client, f"/ws/runs/{run.pk}/", origin="https://tuning.example")
    assert await opened.connect()
    await opened.close()


async def test_it_requires_https_if_the_site_uses_it(client: Client, run: Run, settings: Any) -> None:
    settings.HTTPS = True
    path = f"/ws/runs/{run.pk}/"
    assert not await Socket(client, path).connect()
    opened = Socket(client, path, origin="https://testserver")
    assert await opened.connect()
    await opened.close()


@pytest.mark.parametrize(
    ("how", "code"), [("sign out", 4401), ("deactivate", 4403), ("take the role", 4401), ("leave the project", 4404)]
)
async def test_it_closes_when_the_session_or_the_role_ends(
    client: Client, run: Run, how: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "RECHECK_S", -1.0)

    def revoke() -> None:
        user = User.objects.get(username="a-viewer")
        if how == "sign out":
            client.logout()
        elif how == "deactivate":
            User.objects.filter(pk=user.pk).update(is_active=False)
        elif how == "leave the project":
            user.memberships.update(project=Project.objects.create(name="second"))
        else:
            user.memberships.all().delete()
        announce_status(run)

    async with joined(client, run) as opened:
        await opened.read()
        await database_sync_to_async(revoke)()
        assert (await opened.read())["type"] == "delta", "the delta sent while the session was being checked"
        assert await opened.closing_code() == code


@pytest.mark.parametrize(
    ("how", "code"), [("deactivated", 4403), ("signed out everywhere", 4401), ("gave a new password", 4401)]
)
async def test_it_closes_at_once_when_the_sessions_are_ended(client: Client, run: Run, how: str, code: int) -> None:
    def end() -> None:
        user = User.objects.get(username="a-viewer")
        if how == "deactivated":
            make_user("admin")
            managing.deactivate(user)
        elif how == "signed out everywhere":
            client.post("/account/sign-out/")
        else:
            new = {"old_password": "correct horse", "new_password1": "tensor intrinsics 9"}
            elsewhere = Client()
            elsewhere.force_login(user)
            elsewhere.post("/account/password/", new | {"new_password2": new["new_password1"]})

    async with joined(client, run) as opened:
        await opened.read()
        await database_sync_to_async(end)()
        assert await opened.closing_code() == code


@pytest.mark.parametrize(
    ("how", "code"), [("removed", 4404), ("removed from the only one", 4401), ("no longer an admin of the site", 4404)]
)
async def test_it_closes_at_once_when_the_user_leaves_the_project(
    client: Client, run: Run, how: str, code: int
) -> None:
    def prepare() -> None:
        make_user("admin")
        projects.create("other")
        viewer = User.objects.get(username="a-viewer")
        if how == "removed":
            members.add(Project.objects.get(name="other"), "a-viewer", "admin")
        elif how != "removed from the only one":
            viewer.memberships.all().delete()
            managing.change_role(viewer, "admin")

    def leave() -> None:
        viewer = User.objects.get(username="a-viewer")
        if how == "no longer an admin of the site":
            managing.change_role(viewer, "admin", "other")
        else:
            members.remove(viewer.memberships.get(project=run.project))

    await database_sync_to_async(prepare)()
    async with joined(client, run) as opened:
        await opened.read()
        await database_sync_to_async(leave)()
        assert await opened.closing_code() == code
    again = Socket(client, f"/ws/runs/{run.pk}/")
    if await again.connect():
        assert await again.closing_code() == 4404


def in_another_project() -> None:
    """The watcher leaves another project and gets another role in this one."""
    other = members.add(projects.create("other"), "a-viewer", "admin")
    members.change_role(other, "viewer")
    members.remove(other)
    members.change_role(Membership.objects.get(user__username="a-viewer"), "operator")


def of_somebody_else() -> None:
    """Somebody else is deactivated, and the watcher gets another role."""
    make_user("admin")
    managing.deactivate(make_user("viewer", "somebody-else"))
    managing.change_role(User.objects.get(username="a-viewer"), "operator")


@pytest.mark.parametrize("change", [in_another_project, of_somebody_else])
async def test_it_stays_open_after_changes(client: Client, run: Run, change: Callable[[], None]) -> None:
    def changed() -> None:
        change()
        announce_status(run)

    async with joined(client, run) as opened:
        await opened.read()
        await database_sync_to_async(changed)()
        assert (await opened.read())["type"] == "delta"


async def test_it_forwards_deltas_while_the_session_is_checked(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()

    async def refused_at_last(self: consumers.StateConsumer) -> bool:
        self.checked_at = time.monotonic()
        await answered.wait()
        return False

    async with joined(client, run) as opened:
        await opened.read()
        monkeypatch.setattr(consumers, "RECHECK_S", -1.0)
        monkeypatch.setattr(consumers.StateConsumer, "_may_view", refused_at_last)
        for last in (4, 5, 6):
            await database_sync_to_async(announce_trials)(run, [(0, 1e-3)])
            assert (await opened.read())["last"] == last
        answered.set()
        assert await opened.closing_code() == 4401


async def test_it_asks_to_reconnect_if_the_session_cannot_be_checked(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(self: consumers.StateConsumer) -> bool:
        raise OperationalError("could not connect")

    async with joined(client, run) as opened:
        await opened.read()
        monkeypatch.setattr(consumers, "RECHECK_S", -1.0)
        monkeypatch.setattr(consumers.StateConsumer, "_may_view", unreachable)
        await database_sync_to_async(announce_status)(run)
        assert (await opened.read())["type"] == "delta"
        assert await opened.closing_code() == 1013


async def test_a_delta_needs_no_database_thread(client: Client, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    async def look() -> None:
        looked.append(1)

    async with joined(client, run) as opened:
        await opened.read()
        monkeypatch.setattr("channels.consumer.aclose_old_connections", look)
        await database_sync_to_async(announce_trials)(run, [(0, 1e-3)])
        assert (await opened.read())["last"] == 4
        assert not looked


async def test_it_sends_the_state_and_asks_to_reconnect_while_redis_is_down(
    client: Client, run: Run, settings: Any
) -> None:
    layer = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": ["redis://127.0.0.1:1"]}}
    settings.CHANNEL_LAYERS = {"default": layer}
    opened = Socket(client, f"/ws/runs/{run.pk}/")
    assert await opened.connect()
    assert (await opened.read())["type"] == "state"
    assert await opened.closing_code() == 1013


async def test_it_refuses_anonymous_users_while_redis_is_down(run: Run, settings: Any) -> None:
    layer = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": ["redis://127.0.0.1:1"]}}
    settings.CHANNEL_LAYERS = {"default": layer}
    assert not await Socket(None, f"/ws/runs/{run.pk}/").connect()


async def test_it_works_again_after_redis_was_restarted(
    client: Client, run: Run, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [valkey.url(tmp_path)]}}
    settings.CHANNEL_LAYERS = {"default": layer}
    with own_valkey(tmp_path):
        opened = Socket(client, f"/ws/runs/{run.pk}/")
        assert await opened.connect()
        assert (await opened.read())["last"] == 3
        await database_sync_to_async(announce_trials)(run, [(0, 1e-3)])
        assert (await opened.read())["last"] == 4
    await database_sync_to_async(announce_trials)(run, [(0, 1e-3)])
    with own_valkey(tmp_path):
        await asyncio.wait_for(subscribed_again(tmp_path), 20)
        await database_sync_to_async(announce_trials)(run, [(0, 1e-3)])
        # The delta sent in between is lost: `after` shows that, and the page asks the API for what it missed.
        delta = await opened.read()
        assert (delta["after"], delta["last"]) == (5, 6)
        await opened.close()


async def test_it_asks_to_reconnect_while_the_database_is_down(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: Any) -> str:
        raise OperationalError("could not connect")

    monkeypatch.setattr(RunConsumer, "state_of", unreachable)
    opened = Socket(client, f"/ws/runs/{run.pk}/")
    await opened.connect()
    assert await opened.closing_code() == 1013


async def test_a_user_has_only_so_many(client: Client, run: Run, settings: Any) -> None:
    """Whoever has too many gets a code of its own, for the page to say so; a place that becomes free can be used again."""
    settings.SOCKETS_PER_USER = 2
    sockets = [Socket(client, f"/ws/runs/{run.pk}/") for _ in range(3)]
    for socket in sockets[:2]:
        assert await socket.connect()
        await socket.read()
    assert await sockets[2].connect()
    assert await sockets[2].closing_code() == consumers.TOO_MANY
    await sockets[0].close()
    async with joined(client, run) as again:
        assert (await again.read())["type"] == "state"
    await sockets[1].close()
    assert admission.sockets.counts() == (0, 0)


async def test_there_are_only_so_many_in_all(client: Client, run: Run, settings: Any) -> None:
    settings.SOCKETS = 1
    with admission.sockets.ticket(0) as other:
        other.enter(0)
        socket = Socket(client, f"/ws/runs/{run.pk}/")
        assert await socket.connect()
        assert await socket.closing_code() == consumers.TOO_MANY
    assert admission.sockets.counts() == (0, 0)


async def test_strangers_take_no_place(run: Run) -> None:
    assert not await Socket(Client(), f"/ws/runs/{run.pk}/").connect()
    assert admission.sockets.counts() == (0, 0)
