from __future__ import annotations

import json

import msgspec
import pytest

from tuning.engines.wire.legacy import RELAY, LegacyStart, relay_spec
from tuning.engines.wire.options.legacy import AutoTvmOptions
from tuning.engines.wire.protocol import NetworkSpec, encode


@pytest.mark.parametrize("name", RELAY)
def test_every_network_has_defaults(name: str) -> None:
    assert relay_spec(NetworkSpec(name)).batch == 1


@pytest.mark.parametrize(
    ("name", "layout", "shape", "told"),
    [
        ("resnet-18", "NCHW", [3, 224, 224], "NCHW"),
        ("resnet-18", "NHWC", [224, 224, 3], "NHWC"),
        ("resnet3d-18", "NDHWC", [16, 112, 112, 3], "NDHWC"),
        ("mobilenet", "NHWC", [224, 224, 3], "NHWC"),
        ("squeezenet_v1.1", "NCHW", [3, 224, 224], None),
        ("inception_v3", "NCHW", [3, 299, 299], None),
    ],
)
def test_a_shape_has_the_order_of_its_layout(name: str, layout: str, shape: list[int], told: str | None) -> None:
    spec = relay_spec(NetworkSpec(name, {"layout": layout}))
    assert (spec.shape, spec.layout) == (shape, told)


@pytest.mark.parametrize("name", ["squeezenet_v1.1", "inception_v3"])
def test_a_layout_that_the_network_would_misread_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="layout"):
        relay_spec(NetworkSpec(name, {"layout": "NHWC"}))


def test_three_dimensional_resnets_are_not_the_two_dimensional_ones() -> None:
    assert relay_spec(NetworkSpec("resnet3d-18")).module == "resnet_3d"


def test_a_start_is_one_line_of_plain_json() -> None:
    network = NetworkSpec("mlp")
    start = LegacyStart("autotvm", 1, network, relay_spec(network), {"kind": "llvm"}, AutoTvmOptions(), 8, 0, 0.0, "/w")
    line = encode(start)
    assert line.count(b"\n") == 1
    told = json.loads(line)
    assert (told["type"], told["relay"]["module"], told["options"]["tuner"]) == ("start", "mlp", "xgb")
