"""What a run's supervisor and the members of its pool tell each other, through Redis.

Candidates are Celery jobs on a queue of the pool. What members say, answers above all, is one list that the supervisor reads. What it says
to one member is another. All of them expire by themselves, in case nobody is left to remove them.
"""

from __future__ import annotations

from typing import Any, Union

import msgspec
import redis
from celery import Celery

from tuning.engines.wire.pools.messages import PoolStart, Probe, Probed
from tuning.engines.wire.protocol import Candidate, Hold, Measured

ALIVE_S = 2.0
"""How often a member says that it is alive, and the supervisor that there is a pool."""
OPEN_S = 15
"""A pool whose supervisor says nothing for this long is closed."""
EXPIRE_S = 600
SOCKET_S = 5.0
"""How long Redis may take for an answer before it counts as out of reach."""
MEASURE = "tuning.measure"
"""The name of the job."""


class Joined(msgspec.Struct, tag="joined", frozen=True):
    """The member can measure, and wants so many candidates at once."""

    member: int
    name: str
    wants: int


class Alive(msgspec.Struct, tag="alive", frozen=True):
    """The member is alive, and so it stands there. Whatever else was said may be lost, if Redis is: this is how it shows."""

    member: int
    joined: Joined | None = None
    """What it said when it could measure; None before. The following holds from then on."""
    takes: bool = False
    """Whether it was told to take candidates."""
    held: bool = False
    """Whether it was told to begin nothing."""
    in_hand: list[str] = []
    """The candidates and probes that it has and hasn't answered."""


class Taken(msgspec.Struct, tag="taken", frozen=True):
    """The member has taken a candidate from the queue."""

    member: int
    id: str


class Answer(msgspec.Struct, tag="answer", frozen=True):
    """What became of a candidate or a probe."""

    member: int
    of: Measured | Probed


class Left(msgspec.Struct, tag="left", frozen=True):
    """The member takes nothing more, and has nothing in hand. `reason` if that is a fault."""

    member: int
    reason: str = ""


class Go(msgspec.Struct, tag="go", frozen=True):
    """Take candidates from the queue."""


class End(msgspec.Struct, tag="end", frozen=True):
    """Leave: at once, if nobody waits for what is in hand, or when it is done."""

    at_once: bool = False


Said = Union[Joined, Alive, Taken, Answer, Left]
Told = Union[Probe, Go, Hold, End]

_said = msgspec.json.Decoder(Said)
_told = msgspec.json.Decoder(Told)
_start = msgspec.json.Decoder(PoolStart)
encode = msgspec.json.encode


def connect(url: str) -> redis.Redis:
    """A client that gives up after a while, so that whoever uses it notices an outage."""
    return redis.Redis.from_url(url, socket_timeout=SOCKET_S, socket_connect_timeout=SOCKET_S, health_check_interval=10)


def app_of(broker: str, queue: str, *, sends: bool = False) -> Celery:
    """A Celery app that needs the broker and nothing else, neither settings nor Django. `sends`: it gives up when there is an outage."""
    app = Celery("pool", broker=broker, fixups=[], set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        # A member holds as many as it works on: the others are for whoever is free first.
        worker_prefetch_multiplier=1,
        task_acks_late=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # What members have in hand is the pool's own, so that it goes with the pool.
        broker_transport_options={**_in_hand(queue), **(IMPATIENT if sends else {})},
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
    )
    return app


IMPATIENT = {"socket_timeout": SOCKET_S, "socket_connect_timeout": SOCKET_S}


def _in_hand(queue: str) -> dict[str, str]:
    """Where kombu keeps what was taken and isn't done, by its names for them."""
    return {f"{name}_key": f"tuneboard.{queue}.{name}" for name in ("unacked", "unacked_index", "unacked_mutex")}


class Channel:
    """A pool's places in Redis. Every method may raise `redis.RedisError`."""

    def __init__(self, client: redis.Redis, pool: str) -> None:
        self._redis: Any = client
        self.queue = f"pool.{pool}"
        self._open = f"tuneboard.{self.queue}"
        self._answers = f"{self._open}.said"

    # --- the supervisor's

    def keep_open(self, start: PoolStart) -> None:
        """Say that there is a pool, and how its members measure."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(self._open, encode(start), ex=OPEN_S)
            for key in self._celerys():
                pipe.expire(key, EXPIRE_S)
            pipe.execute()

    def tell(self, member: int, *messages: Told) -> None:
        """Say something to a member."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.rpush(self._of(member), *map(encode, messages))
            pipe.expire(self._of(member), EXPIRE_S)
            pipe.execute()

    def said(self, wait_s: float, most: int = 1000) -> list[Said]:
        """What members have said since; waits for the first."""
        first = self._redis.blpop(self._answers, timeout=wait_s)
        if first is None:
            return []
        more = self._redis.lpop(self._answers, most) or []
        return [_said.decode(each) for each in (first[1], *more)]

    def waiting(self) -> int:
        """How many candidates nobody has taken."""
        return int(self._redis.llen(self.queue))

    def close(self, members: list[int]) -> None:
        """Tell the members to leave, and remove all the rest."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.delete(self._open, self._answers, *self._celerys())
            for member in members:
                pipe.rpush(self._of(member), encode(End(at_once=True)))
                pipe.expire(self._of(member), EXPIRE_S)
            pipe.execute()

    # --- a member's

    def start(self) -> PoolStart | None:
        """How members measure; None if the pool is closed."""
        found = self._redis.get(self._open)
        return _start.decode(found) if found else None

    def say(self, *messages: Said) -> None:
        """Say something to the supervisor."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.rpush(self._answers, *map(encode, messages))
            pipe.expire(self._answers, EXPIRE_S)
            pipe.execute()

    def told(self, member: int, wait_s: float) -> Told | None:
        """The next thing that the supervisor has said to this member."""
        found = self._redis.blpop(self._of(member), timeout=wait_s)
        return _told.decode(found[1]) if found else None

    def _celerys(self) -> list[str]:
        """The keys that Celery makes for the queue."""
        bindings = [f"_kombu.{kind}.{self.queue}" for kind in ("binding", "binding_permanent")]
        return [self.queue, *bindings, *_in_hand(self.queue).values()]

    def _of(self, member: int) -> str:
        return f"{self._open}.{member}"


def send(app: Celery, queue: str, candidate: Candidate) -> None:
    """Put the candidate into the pool's queue. Raises an error of kombu, Redis or the operating system."""
    app.send_task(
        MEASURE,
        (encode(candidate).decode(),),
        queue=queue,
        retry=False,
        ignore_result=True,
        argsrepr=candidate.id,
        kwargsrepr="",
    )
