from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.tuning.engines.pooling import pool_start
from tuning.engines.wire import protocol
from tuning.engines.wire.pools import messages
from tuning.engines.wire.pools.messages import FakeDevice, Probe, Probed, Ready
from tuning.engines.wire.protocol import Candidate, Failed, Hello, Measured

CANDIDATE = Candidate("a-1", 3, b"\x00\xff", [("TENSOR", "float32", [1, 2])], 1e-3)
START = pool_start("one", {"kind": "llvm"})
FAKE = msgspec.structs.replace(START, fake=FakeDevice())


@pytest.mark.parametrize("control", [START, FAKE, CANDIDATE, Probe(CANDIDATE, 5)])
def test_controls_survive_encoding(control: Any) -> None:
    assert messages.decode_control(protocol.encode(control)) == control


@pytest.mark.parametrize(
    "event",
    [
        Hello(protocol.VERSION, "pool", 1, {}),
        Ready(3),
        Measured(id="a", machine="one", run_secs=[1e-3], build_s=0.5, measure_s=0.1),
        Probed(id="a", machine="one", error_kind="build", error="no"),
        Failed("no", "target"),
    ],
)
def test_events_survive_encoding(event: Any) -> None:
    assert messages.decode_event(protocol.encode(event)) == event


def test_what_the_engine_sends_goes_to_machines_as_it_is_and_back() -> None:
    assert messages.decode_control(protocol.encode(CANDIDATE)) == protocol.decode_event(protocol.encode(CANDIDATE))
    answer = Measured(id="a", machine="one", run_secs=[1e-3])
    assert protocol.decode_control(protocol.encode(answer)) == messages.decode_event(protocol.encode(answer))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"run_secs": [1.0], "error_kind": "run", "error": "no"},
        {"run_secs": [1.0], "error": "no"},
        {"error_kind": "run"},
        {"error": "no"},
        {"run_secs": [-1.0]},
        {"run_secs": [1.0, float("nan")]},
        {"run_secs": [float("inf")]},
    ],
)
@pytest.mark.parametrize("kind", [Measured, Probed])
def test_an_answer_is_a_time_or_an_error(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="run_secs"):
        kind(id="a", machine="one", **wrong)


def test_a_wrong_answer_isnt_read() -> None:
    for line in (
        b'{"type":"measured","id":"a","machine":"b","run_secs":[-1]}',
        b'{"type":"measured","id":"a","machine":"b"}',
    ):
        for decode in (messages.decode_event, protocol.decode_control):
            with pytest.raises(msgspec.ValidationError):
                decode(line)
