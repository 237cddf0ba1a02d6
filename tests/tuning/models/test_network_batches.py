"""Which networks are the same for other batches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import make_network
from tuning.actions.networks.chosen import stored
from tuning.models import Network, Project

pytestmark = pytest.mark.django_db


def model(name: str, batch: int, length: int = 128, **values: Any) -> Network:
    """A model whose input has a batch and a length, both open in its file."""
    inputs = [
        {"name": "x", "shape": [batch, length], "dtype": "float32"},
        {"name": "y", "shape": [3], "dtype": "float32"},
    ]
    return make_network(name, **({"dims": {"batch": batch, "length": length}, "inputs": inputs} | values))


def test_the_same_file_with_another_value_of_its_first_dimension_is_another_batch() -> None:
    one, eight = model("one", 1), model("eight", 8)
    model("another-file", 4, sha256="1" * 64)
    model("another-length", 1, length=64)
    model("both", 2, length=64)
    model("elsewhere", 2, project=Project.objects.create(name="elsewhere"))
    known = one.batches()
    assert known
    assert (known.own, known.others) == (1, {8: eight})
    assert [(each["batch"], each["name"]) for each in eight.to_dict()["batches"]] == [(1, "one"), (8, "eight")]


def test_another_length_is_no_other_batch() -> None:
    assert model("short", 1, length=64).batches() is None
    model("long", 1)
    assert model("longer", 1, length=256).batches() is None


def test_a_batch_that_is_part_of_another_axis_is_none() -> None:
    flat = [{"name": "x", "shape": [128], "dtype": "float32"}], [{"name": "x", "shape": [1024], "dtype": "float32"}]
    model("one", 1, inputs=flat[0])
    assert model("eight", 8, inputs=flat[1]).batches() is None


def test_a_built_in_network_with_another_batch_is_another_batch() -> None:
    one, eight = (stored("mlp", {"batch": batch, "dtype": "float32"}, None) for batch in (1, 8))
    stored("mlp", {"batch": 4, "dtype": "float16"}, None)
    known = one.batches()
    assert known
    assert (known.own, known.others) == (1, {8: eight})
    assert one.to_dict()["batches"] == [], "which options others use is theirs to know"


def test_a_network_that_is_known_by_name_has_no_batches() -> None:
    assert Network.objects.called("named", Project.objects.default()).batches() is None
