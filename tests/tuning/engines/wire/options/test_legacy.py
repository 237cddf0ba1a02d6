"""Options of auto_scheduler and AutoTVM."""

from __future__ import annotations

from typing import Any

import pytest

from tuning.engines.wire.options.legacy import HARDWARE, AutoSchedulerOptions, AutoTvmOptions


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (
            AutoSchedulerOptions(sample_init_min_population=64, evolutionary_search_population=32),
            ["sample_init_min_population"],
        ),
        (AutoSchedulerOptions(), []),
        (AutoTvmOptions(tuner="ga", transfer=True), ["transfer"]),
        (AutoTvmOptions(transfer=True), ["transfer"]),
        (AutoTvmOptions(transfer=True, feature_type="knob"), []),
        (AutoTvmOptions(ga_elites=200), ["ga_elites"]),
    ],
)
def test_options_that_contradict_each_other_are_named(options: Any, fields: list[str]) -> None:
    assert list(options.contradictions()) == fields


def test_only_the_hardware_parameters_that_were_given_are_passed_on() -> None:
    assert AutoSchedulerOptions().hardware() == {}
    assert AutoSchedulerOptions(num_cores=4, warp_size=32).hardware() == {"num_cores": 4, "warp_size": 32}
    assert set(HARDWARE) < set(AutoSchedulerOptions.__struct_fields__)
