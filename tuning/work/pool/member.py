"""A machine as a member of a run's pool: `python -m tuning.work.pool.member KEY`, with a `Part` as JSON on stdin.

It needs the broker and no database. A Celery worker takes candidates from the pool's queue, as many as the measuring process
wants at once. The process ends when the supervisor says so or is gone, when it gets SIGTERM or its stdin closes, when measuring
fails, and when Redis is out of reach for long. In each case it finishes what it has in hand.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
from typing import Any, NoReturn

import msgspec
from celery.signals import worker_ready, worker_shutting_down
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual
from redis.exceptions import RedisError

from tuning.engines.wire.pools.messages import PoolEvent, Probe, Probed, Ready
from tuning.engines.wire.protocol import Candidate, Failed, Hold, Measured

from . import channel
from .channel import ALIVE_S, EXPIRE_S, Alive, Answer, Channel, End, Go, Joined, Left, Said, Taken
from .measuring import Forked, Measuring

logger = logging.getLogger("tuneboard.member")
PATIENCE_S = float(EXPIRE_S)
"""How long Redis may be out of reach: then whatever was said has expired. Whether the run still wants this machine, the database tells."""
LOOKS = 3
"""A pool that isn't there so many times in a row is closed: a Redis that was restarted is empty until the supervisor says that there is one."""
RETRY_S = 0.5
LAST_WORDS_S = 5.0
_candidate = msgspec.json.Decoder(Candidate)


class InHand(kombu_redis.QoS):
    """What was taken from the queue and isn't done. kombu's keeps for good what couldn't be acknowledged because Redis was away.

    With both hands full of that, a member would neither take anything more nor notice that it must connect again.
    """

    def ack(self, delivery_tag: str) -> None:
        """It is done, whether or not Redis hears of it: what is lost is sent again."""
        try:
            super().ack(delivery_tag)
        except Exception:
            virtual.QoS.ack(self, delivery_tag)
            raise


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Which machine takes part in which pool."""

    member: int
    """The key of its membership."""
    name: str
    pool: str
    broker: str
    redis: str
    measuring: Forked | None = None
    """Its measuring process; without it, the member starts one."""


class Member:
    """One machine's part in a pool."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._me = part.member
        self._channel = Channel(channel.connect(part.redis), part.pool)
        self._listening = Channel(channel.connect(part.redis), part.pool)
        self._words: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._silent = threading.Event()
        """Everything that was to be said has been said."""
        self._lock = threading.Lock()
        """Held to change what is in hand and say so."""
        self._in_hand: dict[str, threading.Event] = {}
        self._may_take = threading.Event()
        self._ending = threading.Event()
        self._reason = ""
        self._reached = time.monotonic()
        self._joined: Joined | None = None
        self._held = False
        self._probes: set[str] = set()
        """Those that are in hand."""

    def take_part(self) -> None:
        """Until the end."""
        start = self._channel.start()
        if start is None:
            logger.info("The pool is closed.")
            return
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        threading.Thread(target=self._say, name="say", daemon=True).start()
        mine = msgspec.structs.replace(start, machine=self._part.name)
        self._measuring = Measuring(mine, self._heard, self._part.measuring)
        for work in (self._listen, self._be_alive, self._watch_stdin):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        while not self._may_take.wait(0.2) and not self._ending.is_set():
            pass
        if not self._ending.is_set():
            self._work()
        self._ending.set()
        self._measuring.close()
        self._tell(Left(self._me, self._reason))
        deadline = time.monotonic() + LAST_WORDS_S
        while not self._words.empty() or not self._silent.wait(0.05):
            if time.monotonic() > deadline:
                return

    def _work(self) -> None:
        """Take candidates until SIGTERM, after which Celery finishes what was begun."""
        app = channel.app_of(self._part.broker, self._channel.queue)
        app.task(name=channel.MEASURE)(self._measure)
        worker = app.Worker(
            hostname=f"member-{self._me}@{self._part.name}",
            queues=[self._channel.queue],
            concurrency=self._joined.wants if self._joined else 1,
            pool_cls="threads",
            loglevel=logging.WARNING,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
        )
        worker_ready.connect(self._began, weak=False)
        worker_shutting_down.connect(lambda **_: self._end(), weak=False)
        worker.start()

    def _measure(self, text: str) -> None:
        """The job: measure one candidate."""
        candidate = _candidate.decode(text)
        with self._lock:
            done = self._in_hand.setdefault(candidate.id, threading.Event())
            self._tell(Taken(self._me, candidate.id))
        self._measuring.ask(candidate)
        done.wait()

    def _heard(self, event: PoolEvent | None) -> None:
        if isinstance(event, Ready):
            self._joined = Joined(self._me, self._part.name, event.wants)
            self._tell(self._joined)
        elif isinstance(event, (Measured, Probed)):
            self._answer(event)
        elif isinstance(event, Failed):
            self._end(event.error)
        elif event is None:
            self._end(self._reason or "Its measuring process ended.")
            for done in list(self._in_hand.values()):
                done.set()

    def _answer(self, event: Measured | Probed) -> None:
        with self._lock:
            self._tell(Answer(self._me, event))
            if isinstance(event, Probed):
                self._probes.discard(event.id)
            elif done := self._in_hand.pop(event.id, None):
                done.set()

    def _listen(self) -> NoReturn:
        while True:
            try:
                told = self._listening.told(self._me, ALIVE_S)
            except RedisError:
                time.sleep(RETRY_S)
                continue
            if isinstance(told, Go):
                self._may_take.set()
            elif isinstance(told, Hold):
                self._held = told.held
                self._measuring.ask(told)
            elif isinstance(told, Probe):
                self._probe(told)
            elif isinstance(told, End):
                self._end(at_once=told.at_once)

    def _probe(self, probe: Probe) -> None:
        with self._lock:
            if probe.candidate.id in self._probes:
                return
            self._probes.add(probe.candidate.id)
        self._measuring.ask(probe)

    def _stand(self) -> Alive:
        """How it stands here."""
        in_hand = [*self._in_hand, *self._probes]
        return Alive(self._me, self._joined, self._may_take.is_set(), self._held, in_hand)

    def _be_alive(self) -> NoReturn:
        not_there = 0
        while True:
            with self._lock:
                self._tell(self._stand())
            try:
                not_there = 0 if self._channel.start() else not_there + 1
                self._reached = time.monotonic()
                if not_there == LOOKS:
                    self._end(at_once=True)
            except RedisError as error:
                not_there = 0
                if time.monotonic() > self._reached + PATIENCE_S:
                    self._end(f"It couldn't reach Redis for {PATIENCE_S:g} s: {error}")
            time.sleep(ALIVE_S)

    def _watch_stdin(self) -> None:
        sys.stdin.read()
        self._end()

    def _end(self, reason: str = "", *, at_once: bool = False) -> None:
        """Take nothing more."""
        if not self._ending.is_set():
            self._reason = reason
            self._ending.set()
            self._measuring.ask(Hold(held=False))
            self._shut_down()
        if at_once:
            self._measuring.close()

    def _began(self, **_: Any) -> None:
        """A signal may have come before the worker minded it."""
        if self._ending.is_set():
            self._shut_down()

    def _shut_down(self) -> None:
        """Have the worker finish what it has begun. Before it starts, and after it ended, this comes back to `_end`."""
        os.kill(os.getpid(), signal.SIGTERM)

    def _tell(self, said: Said) -> None:
        self._silent.clear()
        self._words.put(said)

    def _say(self) -> NoReturn:
        """Answers are never lost while this process lives, but that it was alive an hour ago is worth nothing."""
        while True:
            said = self._words.get()
            while True:
                try:
                    self._channel.say(said)
                    break
                except RedisError:
                    if isinstance(said, Alive):
                        break
                    time.sleep(RETRY_S)
            if self._words.empty():
                self._silent.set()


def main() -> Any:
    """Take part as the first line of stdin says."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(levelname)s] %(message)s")
    kombu_redis.Channel.QoS = InHand
    part = msgspec.json.decode(sys.stdin.readline(), type=Part)
    Member(part).take_part()
    os._exit(0)  # Threads may be waiting for Redis.


if __name__ == "__main__":
    main()
