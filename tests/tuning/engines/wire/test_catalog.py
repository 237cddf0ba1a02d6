from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec
import pytest

from tuning.engines.wire.catalog import BUILTIN, options_of


def test_it_has_all_networks_by_name() -> None:
    residual = {f"resnet-{depth}" for depth in (18, 34, 50, 101, 152)} | {f"resnet3d-{depth}" for depth in (18, 34, 50)}
    assert {"mlp", "matmul", "conv2d", "mobilenet", "squeezenet_v1.1", "inception_v3"} | residual == set(BUILTIN)
    for name, network in BUILTIN.items():
        assert network.name == name
        assert network.title
        assert network.description


def test_networks_are_grouped_by_family() -> None:
    """A form lists families in this order, starting with the network that tunes fastest."""
    families = [family for family, _ in groupby(network.family for network in BUILTIN.values())]
    assert families == ["Small", "Image classification", "Video"]
    assert next(iter(BUILTIN)) == "mlp"


@pytest.mark.parametrize("name", BUILTIN)
def test_every_option_has_a_default(name: str) -> None:
    options_of(name, {})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("matmul", {"n": 0}),
        ("matmul", {"n": 8193}),
        ("matmul", {"n": "big"}),
        ("matmul", {"dtype": "int8"}),
        ("mlp", {"batch": 0}),
        ("mlp", {"depth": 3}),
        ("matmul", {"layout": "NCHW"}),
        ("mlp", {"layout": "NHWC"}),
        ("resnet-18", {"layout": "NCDHW"}),
        ("resnet-18", {"layout": "NHCW"}),
        ("resnet-18", {"dtype": "float64"}),
        ("resnet3d-18", {"layout": "NCHW"}),
        ("inception_v3", {"image": 75}),
    ],
)
def test_options_out_of_bounds_are_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        options_of(name, given)


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(KeyError):
        options_of("lenet", {})
