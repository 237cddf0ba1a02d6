from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tuning.engines.catalog import BUILTIN, options_of


def test_it_lists_the_networks_by_name() -> None:
    assert {"mlp", "matmul", "resnet-18"} == set(BUILTIN)
    for name, network in BUILTIN.items():
        assert network.name == name
        assert network.title
        assert network.description


@pytest.mark.parametrize("name", BUILTIN)
def test_every_option_has_a_default_and_help(name: str) -> None:
    options_of(name, {})
    (schema,) = msgspec.json.schema(BUILTIN[name].options)["$defs"].values()
    for option, described in schema["properties"].items():
        assert described.get("title"), option
        assert described.get("description"), option


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("matmul", {"n": 0}),
        ("matmul", {"n": 8193}),
        ("matmul", {"n": "big"}),
        ("matmul", {"dtype": "int8"}),
        ("mlp", {"batch": 0}),
        ("mlp", {"depth": 3}),
        ("resnet-18", {"layout": "NCHW"}),
    ],
)
def test_options_out_of_bounds_are_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        options_of(name, given)


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(KeyError):
        options_of("lenet", {})
