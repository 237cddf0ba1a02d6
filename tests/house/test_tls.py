"""Database and broker over TLS, with an authority of one's own: whatever talks to them does, and the wrong one is refused."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils.module_loading import import_string

from tests.fleet import Joined, by_tcp, socket_of
from tests.tls import Authority, Front
from tests.tuning.engines.pooling import pool_start
from tuning.engines.wire.protocol import Candidate
from tuning.host import reachable, valkey
from tuning.host.postgresql import url_of
from tuning.work.pool import channel

START = pool_start("", {})


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def wrong(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "wrong")


def with_tls(url: str, port: int, ca: Path) -> str:
    """The address of a broker behind TLS, as settings.REDIS_URL has it."""
    parts = url.rpartition("@")[0].partition("//")[2]
    return f"rediss://{parts}@127.0.0.1:{port}/0?ssl_ca_certs={ca}&ssl_cert_reqs=required"


@pytest.fixture
def broker(ours: Authority, settings: Any) -> Iterator[Front]:
    """The tests' own broker, behind TLS."""
    with Front(valkey.socket_path(settings.VAR), ours.server()) as front:
        yield front


def trouble(settings: Any, url: str) -> str | None:
    settings.REDIS_URL = url
    return reachable.broker_trouble()


def test_all_that_talk_to_the_broker_do_so_over_tls(broker: Front, ours: Authority, settings: Any) -> None:
    url = with_tls(settings.REDIS_URL, broker.port, ours.ca)
    assert trouble(settings, url) is None
    with closing(channel.connect(url)) as client:
        pool = channel.Channel(client, f"tls.{secrets.token_hex(4)}")
        pool.keep_open(START)
        assert pool.start() == START
        app = channel.app_of(url, pool.queue, sends=True)
        channel.send(app, pool.queue, Candidate("c1", 0, b"module", []))
        assert pool.waiting() == 1
        app.close()
        pool.close([])
    layer: Any = import_string("channels_redis.pubsub.RedisPubSubChannelLayer")(hosts=[url])

    async def said() -> Any:
        name = await layer.new_channel()
        await layer.group_add("watchers", name)
        await layer.group_send("watchers", {"type": "hello"})
        heard = await layer.receive(name)
        await layer.flush()
        return heard

    assert async_to_sync(said)() == {"type": "hello"}


def test_a_broker_with_a_certificate_of_somebody_else_is_refused(
    broker: Front, wrong: Authority, settings: Any
) -> None:
    said = trouble(settings, with_tls(settings.REDIS_URL, broker.port, wrong.ca))
    assert said is not None
    assert f"The broker rediss://127.0.0.1:{broker.port}/0" in said
    assert "certificate verify failed" in said
    assert len(said.splitlines()) == 1


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("whose", "said"), [("ours", "its database has no tables"), ("wrong", "certificate verify failed")]
)
def test_a_machine_joins_over_tls_only_if_it_knows_the_databases_authority(
    whose: str, said: str, ours: Authority, wrong: Authority, tmp_path: Path
) -> None:
    """The database is empty, so whoever reaches it is told so."""
    server = os.environ.get("TUNEBOARD_TEST_DATABASE_URL")
    if server is None:
        pytest.skip("several machines need PostgreSQL")
    ca = {"ours": ours, "wrong": wrong}[whose].ca
    with Front(socket_of(server), ours.server(), is_postgresql=True) as front:
        database = f"{by_tcp(url_of(server, 'template1'), front.port)}?sslmode=verify-full&sslrootcert={ca}"
        machine = Joined(tmp_path / "var", database)
        machine.env["REDIS_URL"] = "rediss://:secret@127.0.0.1:9/0"
        machine.join("lab-2")
        machine.wait_for(lambda: said in machine.said(), 60)
        machine.close()
