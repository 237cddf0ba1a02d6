"""The messages between a measuring process and its supervisor: JSON lines, as in `wire.protocol`.

`python -m tuning.engines.pool --events-fd FD` builds and measures candidates of one run on one machine of its pool. It reads
one `PoolStart` on stdin, then any number of `Candidate` and `Probe`, and answers each. While a `Hold` says so it begins to measure
nothing. It ends when stdin closes. After `Failed` it exits with status 1.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta

from tuning.engines.wire.protocol import Candidate, ErrorKind, Failed, Hello, Hold, Measured


class FakeDevice(msgspec.Struct, frozen=True):
    """A device that measures nothing: it answers after a while. Every answer says that it is `synthetic`."""

    takes_s: Annotated[float, Meta(ge=0, le=3600)] = 0.5
    """How long an answer takes on average."""
    noise: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """Standard deviation of that time, and of latencies, as a share of their mean."""
    wants: Annotated[int, Meta(ge=1, le=64)] = 2
    """How many candidates it wants at once: the one that it has in hand, and others that wait."""


class PoolStart(msgspec.Struct, tag="pool_start", frozen=True, kw_only=True):
    """The first control: how to build and measure. Names and units as in `Options`."""

    machine: str
    """This machine's name, for its answers."""
    target: dict[str, Any]
    """As resolved by the run's engine (`TasksExtracted.target`)."""
    number: int
    repeat: int
    min_repeat_ms: int
    build_timeout_s: float
    run_timeout_s: float
    build_workers: int | None = None
    overlap: Literal["auto", "on", "off"] = "auto"
    """Whether to build while something is measured. Auto does so unless the CPU measures, because that would disturb it."""
    cold_bytes: int = 0
    """As in `TasksExtracted`: for candidates that don't tell their own."""
    scratch: str | None = None
    """As in `Start`."""
    fake: FakeDevice | None = None
    """Measure nothing and make answers up. TVM isn't loaded then."""


class Probe(msgspec.Struct, tag="probe", frozen=True):
    """A candidate to compare machines by: to be measured at full length, `rounds` times, without being a trial."""

    candidate: Candidate
    rounds: Annotated[int, Meta(ge=2, le=1000)]


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """The machine can measure. A summand of `Slots.wanted`."""

    wants: int
    """How many candidates it wants to hold at once. It accepts any number."""


class Probed(msgspec.Struct, tag="probed", frozen=True, kw_only=True):
    """The answer to a `Probe`: seconds per execution of each round, or an error."""

    id: str
    machine: str
    run_secs: list[float] = []
    error_kind: ErrorKind | None = None
    error: str | None = None
    synthetic: bool = False

    def __post_init__(self) -> None:
        if (self.error_kind is None) != (self.error is None) or (self.error_kind is None) != bool(self.run_secs):
            raise ValueError("A probe has either run_secs, or an error and its kind.")
        if not all(0 < seconds < math.inf for seconds in self.run_secs):
            raise ValueError("run_secs must be finite positive numbers.")


PoolEvent = Union[Hello, Ready, Measured, Probed, Failed]
PoolControl = Union[PoolStart, Candidate, Hold, Probe]

_events = msgspec.json.Decoder(PoolEvent)
_controls = msgspec.json.Decoder(PoolControl)


def decode_event(line: bytes) -> PoolEvent:
    """Raises `msgspec.MsgspecError` if the line isn't an event of a measuring process."""
    event: PoolEvent = _events.decode(line)
    return event


def decode_control(line: bytes) -> PoolControl:
    """Raises `msgspec.MsgspecError` if the line isn't a control of one."""
    control: PoolControl = _controls.decode(line)
    return control
