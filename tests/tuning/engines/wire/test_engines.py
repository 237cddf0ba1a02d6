"""Options as they are stored with runs."""

from __future__ import annotations

import msgspec
import pytest

from tuning.engines.wire.engines import ENGINES
from tuning.engines.wire.options.meta_schedule import Options

STRUCTS = {engine.name: engine.options for engine in ENGINES.values()} | {
    f"{engine.name}: {name}": network.options
    for engine in ENGINES.values()
    for name, network in engine.networks.items()
}
"""Options of engines, and of the networks that each builds."""


@pytest.mark.parametrize("struct", STRUCTS.values(), ids=STRUCTS)
def test_every_option_has_a_default_a_title_and_help(struct: type[msgspec.Struct]) -> None:
    struct()
    (schema,) = msgspec.json.schema(struct)["$defs"].values()
    for option, described in schema["properties"].items():
        assert described.get("title"), option
        assert described.get("description"), option


def test_runs_of_earlier_versions_do_what_they_did() -> None:
    assert ENGINES["meta_schedule"].options_of({"seed": 1}) == Options(
        seed=1,
        activations="as_given",
        algorithms="direct",
        cold_weights=False,
        columns="as_given",
        data_layout="as_given",
        filters="as_given",
        neighbours=False,
        quantized="floats",
        schedule_rules="tvm",
        transfer=False,
        transposed="over_zeros",
        winograd="step_by_step",
    )
    now = {"algorithms": "fastest", "cold_weights": True, "quantized": "auto"}
    now |= {
        "schedule_rules": "extended",
        "transfer": True,
        "neighbours": True,
        "winograd": "in_parts",
        "transposed": "by_phase",
        "columns": "whole_vectors",
        "filters": "whole_vectors",
        "activations": "extrema",
        "data_layout": "channels_last",
    }
    assert ENGINES["meta_schedule"].options_of(now) == Options()
    assert ENGINES["auto_scheduler"].options_of({}) == ENGINES["auto_scheduler"].options()
