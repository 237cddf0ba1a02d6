from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tuning.engines.wire.engines import ENGINES
from tuning.engines.wire.options.meta_schedule import Options
from tuning.engines.wire.options.rewrites import Rewrites


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"algorithms": "fastest", "winograd": "step_by_step"}, Rewrites(algorithms=True)),
        ({"winograd": "in_parts", "transposed": "over_zeros"}, Rewrites(in_parts=True)),
        ({"transposed": "by_phase", "algorithms": "direct"}, Rewrites(by_phase=True)),
        ({"data_layout": "channels_last", "activations": "as_given"}, Rewrites(channels_last=True)),
        ({"activations": "extrema", "data_layout": "as_given"}, Rewrites(as_extrema=True)),
        ({"columns": "whole_vectors", "filters": "as_given"}, Rewrites(whole_columns=True)),
        ({"filters": "whole_vectors", "columns": "as_given"}, Rewrites(whole_filters=True)),
        ({"quantized": "auto"}, Rewrites(integers=True)),
        ({"quantized": "integers"}, Rewrites(integers=True)),
        ({"quantized": "floats"}, Rewrites()),
        ({"precision": "bfloat16"}, Rewrites(precision="bfloat16")),
    ],
    ids=str,
)
def test_each_option_has_its_rewrite(options: dict[str, Any], expected: Rewrites) -> None:
    assert Rewrites.of(options) == expected
    earlier = ENGINES["meta_schedule"].options_of(options)
    assert isinstance(earlier, Options)
    assert earlier.rewrites == expected


def test_a_run_of_today_has_all_but_a_smaller_type() -> None:
    assert Options().rewrites == Rewrites("network", *[True] * 8)


def test_products_in_a_smaller_type_have_neither_other_algorithms_nor_whole_vectors() -> None:
    found = Options(precision="bfloat16").rewrites
    assert found == Rewrites(
        "bfloat16", integers=True, in_parts=True, as_extrema=True, channels_last=True, by_phase=True
    )


@pytest.mark.parametrize("engine", ["auto_scheduler", "autotvm"])
def test_runs_of_older_tvms_have_none(engine: str) -> None:
    assert Rewrites.of(msgspec.structs.asdict(ENGINES[engine].options())) == Rewrites()


def test_runs_of_earlier_versions_have_none() -> None:
    assert Rewrites.of({}) == Rewrites()
