from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning.engines.wire import protocol
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.protocol import (
    AnyTaskInfo,
    Begun,
    Candidate,
    Control,
    Event,
    Extend,
    Failed,
    Finished,
    FinishReason,
    Hello,
    KnownRecord,
    Measured,
    NetworkSpec,
    Phase,
    PhaseName,
    Plateaued,
    Pool,
    Ranked,
    Round,
    Slots,
    Start,
    Stop,
    TasksExtracted,
    TensorInfo,
    TrialMeasured,
    WarmStart,
    WarmStarted,
)

TEXT = st.text()
COUNT = st.integers(0, 2**31 - 1)
SECONDS = st.floats(min_value=0, max_value=1e9)
JSON_OBJECT = st.dictionaries(TEXT, TEXT | st.integers(-(2**53), 2**53) | st.booleans() | st.lists(TEXT))
TENSORS = st.builds(TensorInfo, TEXT, st.lists(COUNT), TEXT)
TASKS = st.builds(
    AnyTaskInfo, COUNT, TEXT, st.none() | COUNT, st.none() | SECONDS, TEXT, st.lists(TENSORS), st.none() | TEXT
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Hello, COUNT, TEXT, COUNT, st.dictionaries(TEXT, TEXT)),
    st.builds(Phase, st.sampled_from(get_args(PhaseName)), st.none() | COUNT),
    st.builds(TasksExtracted, JSON_OBJECT, st.lists(TASKS)),
    st.builds(
        TrialMeasured,
        task=COUNT,
        latency_s=st.none() | SECONDS,
        at_s=SECONDS,
        error_kind=st.none() | st.sampled_from(get_args(protocol.ErrorKind)),
        error=st.none() | TEXT,
        record=st.none() | TEXT,
        recovered=st.booleans(),
        machine=st.none() | TEXT,
    ),
    st.builds(WarmStarted, st.lists(COUNT), st.lists(COUNT), st.lists(st.builds(Begun, COUNT, COUNT, SECONDS))),
    st.builds(Plateaued, COUNT),
    st.builds(
        Candidate,
        TEXT,
        COUNT,
        st.binary(),
        st.lists(st.tuples(TEXT, TEXT, st.lists(COUNT))),
        st.none() | SECONDS,
    ),
    st.builds(Round, st.none() | COUNT, COUNT, COUNT, SECONDS, SECONDS, search_s=SECONDS, beside_measure_s=SECONDS),
    st.builds(
        Ranked, COUNT, COUNT, SECONDS, st.none() | st.floats(-1, 1), st.lists(st.floats(-10, 10)), st.lists(SECONDS)
    ),
    st.builds(Finished, st.sampled_from(get_args(FinishReason))),
    st.builds(Failed, TEXT, st.none() | TEXT),
)
OPTIONS = st.builds(Options, trials_per_batch=st.integers(1, 1024), seed=st.none() | st.integers(0, 2**31 - 1))
CONTROLS: st.SearchStrategy[Control] = st.one_of(
    st.just(Stop()),
    st.builds(Slots, COUNT),
    st.builds(Measured, id=TEXT, machine=TEXT, run_secs=st.lists(SECONDS, min_size=1), synthetic=st.booleans()),
    st.builds(
        Measured,
        id=TEXT,
        machine=TEXT,
        error_kind=st.sampled_from(get_args(protocol.ErrorKind)),
        error=TEXT,
        build_s=st.none() | SECONDS,
    ),
    st.builds(Extend, COUNT, st.none() | SECONDS),
    st.builds(WarmStart, st.lists(st.builds(KnownRecord, COUNT, COUNT, TEXT, st.none() | SECONDS))),
    st.builds(
        Start,
        run_id=COUNT,
        network=st.builds(NetworkSpec, TEXT, st.dictionaries(TEXT, COUNT | TEXT)),
        target=JSON_OBJECT | TEXT,
        options=OPTIONS,
        trials_budget=COUNT,
        trials_done=COUNT,
        elapsed_s=SECONDS,
        work_dir=TEXT,
        keep_best=COUNT,
        pool=st.none() | st.builds(Pool, COUNT, st.floats(1, 100)),
        continued=st.none() | COUNT,
    ),
)


@given(EVENTS)
def test_events_survive_encoding(event: Event) -> None:
    line = protocol.encode(event)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert protocol.decode_event(line) == event


@given(CONTROLS)
def test_controls_survive_encoding(control: Control) -> None:
    line = protocol.encode(control)
    assert line.count(b"\n") == 1
    assert protocol.decode_control(line) == control


@given(EVENTS, st.floats(0, 1, exclude_max=True))
def test_a_part_of_an_event_is_no_event(event: Event, share: float) -> None:
    line = protocol.encode(event).rstrip()
    with pytest.raises(msgspec.MsgspecError):
        protocol.decode_event(line[: int(share * len(line))])


@pytest.mark.parametrize("decode", [protocol.decode_event, protocol.decode_control])
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"?",
        b"null",
        b"[]",
        b"{}",
        b'{"type":"nosuch"}',
        b'{"type":"failed"}',
        b'{"type":"extend","trials_budget":8}',
        b'{"type":"failed","error":"\xff"}',
        b'{"type":"start","work_dir":"\xff"}',
        b'{"deep":' + b"[" * 100_000,
    ],
    ids=lambda line: line[:40],
)
def test_anything_else_raises_one_kind_of_error(line: bytes, decode: Callable[[bytes], object]) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode(line)
