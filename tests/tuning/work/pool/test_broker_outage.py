"""A member whose broker goes away while its hands are full, and comes back empty: it answers, and takes more."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.fleet import Broker
from tests.tuning.engines.pooling import pool_start
from tuning.engines.wire.pools.messages import FakeDevice
from tuning.engines.wire.protocol import Candidate
from tuning.work.pool import channel
from tuning.work.pool.channel import Alive, Answer, Channel, Go, Joined, Said, Taken
from tuning.work.pool.member import Part

START = pool_start("", {}, fake=FakeDevice(takes_s=0.5, noise=0.0, wants=2))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as started:
        yield started


class Supervisor:
    """The other end of the pool."""

    def __init__(self, url: str) -> None:
        self.client = channel.connect(url)
        self.channel = Channel(self.client, "7.test")
        self.app = channel.app_of(url, self.channel.queue, sends=True)
        self.heard: list[Said] = []

    def close(self) -> None:
        self.channel.close([3])
        self.client.close()
        self.app.close()

    def send(self, *names: str) -> None:
        for name in names:
            channel.send(self.app, self.channel.queue, Candidate(name, 0, b"module", []))

    def until(self, kind: type[Said], count: int) -> None:
        """Waits until the member has said so many of these; keeps the pool open."""
        deadline = time.monotonic() + 60
        while sum(isinstance(one, kind) for one in self.heard) < count:
            assert time.monotonic() < deadline, self.heard
            self.channel.keep_open(START)
            self.heard += self.channel.said(0.5)


@pytest.fixture
def member(broker: Broker) -> Iterator[subprocess.Popen[bytes]]:
    part = Part(member=3, name="lab-3", pool="7.test", broker=broker.url(), redis=broker.url())
    command = [sys.executable, "-m", "tuning.work.pool.member", "3"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(msgspec.json.encode(part) + b"\n")
        process.stdin.flush()
        yield process
        process.kill()


def test_it_takes_more_after_its_broker_was_away(broker: Broker, request: pytest.FixtureRequest) -> None:
    supervisor = Supervisor(broker.url())
    supervisor.channel.keep_open(START)
    member = request.getfixturevalue("member")
    supervisor.until(Joined, 1)
    supervisor.channel.tell(3, Go())
    supervisor.send("a", "b")
    supervisor.until(Taken, 2)
    broker.stop()
    time.sleep(1.5)  # By now it has measured both, and could tell nobody.
    broker.start()
    supervisor.until(Answer, 2)
    supervisor.send("c", "d")
    supervisor.until(Answer, 4)
    supervisor.until(Alive, 1)
    assert member.poll() is None
    supervisor.close()
