"""What an engine is asked for, by where it measures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import TARGET, make_machine, make_roofline, make_run
from tuning.engines.wire.protocol import Reference, Start
from tuning.engines.wire.tracker import Address
from tuning.work.starting import starting

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("values", "reference"),
    [
        ({}, Reference()),
        ({"reference_trial": 7}, Reference(trial=7)),
        ({"machines_wanted": 3}, Reference()),
        ({"device": "rpc:lab/pi"}, Reference()),
        ({"machines_wanted": 3, "synthetic": True}, None),
    ],
    ids=["new", "resumed", "pool", "remote", "synthetic"],
)
def test_whatever_is_really_measured_has_a_reference(
    settings: Any, values: dict[str, Any], reference: Reference | None
) -> None:
    settings.TRACKERS = {"lab": Address("127.0.0.1", 9)}
    start, *_ = starting(make_run(machine=make_machine(), **values), 0.0)
    assert isinstance(start, Start)
    assert start.reference == reference
    assert start.rooflines is None, "no test measures one unless it says so"


def test_an_engine_learns_whose_roofline_is_known(settings: Any) -> None:
    settings.ROOFLINE = True
    machine = make_machine()
    make_roofline(machine)
    start, *_ = starting(make_run(machine=machine), 0.0)
    assert isinstance(start, Start)
    assert start.rooflines == [TARGET]
