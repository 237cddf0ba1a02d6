"""The model that a quantized one was made from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import make_network
from tuning.actions.networks import float_models
from tuning.models import Network, Project
from tuning.validation import Invalid

pytestmark = pytest.mark.django_db
QUANTIZED = {"QuantizeLinear": 2, "DequantizeLinear": 4, "Gemm": 1}


@pytest.fixture
def quantized() -> Network:
    return make_network("int8", operators=QUANTIZED)


def test_it_is_chosen_and_given_up_again(quantized: Network) -> None:
    floats = make_network("floats")
    float_models.choose(quantized, floats.pk)
    quantized.refresh_from_db()
    assert quantized.float_model == floats
    assert quantized.to_dict()["float_model"] == floats.pk
    float_models.choose(quantized, None)
    quantized.refresh_from_db()
    assert quantized.float_model is None


def test_a_network_without_it_stays_when_it_is_deleted(quantized: Network) -> None:
    floats = make_network("floats")
    float_models.choose(quantized, floats.pk)
    floats.delete()
    quantized.refresh_from_db()
    assert quantized.float_model is None


def others() -> dict[str, Any]:
    """Networks that can't be it, by what is wrong with them."""
    wide = [{"name": "x", "shape": [1, 3], "dtype": "float32"}]
    elsewhere = Project.objects.create(name="elsewhere")
    return {
        "wide takes other inputs: x [1, 3] float32, and int8 x [1, 784] float32.": make_network("wide", inputs=wide).pk,
        "int8-too is quantized, too.": make_network("int8-too", operators=QUANTIZED).pk,
        "Must be another network, from an ONNX file.": make_network("relax", kind="irmodule").pk,
        "The project has no such network.": make_network("theirs", project=elsewhere).pk,
    }


def test_only_those_that_it_can_be_made_from_are_offered(quantized: Network) -> None:
    others()
    floats = [make_network(name) for name in ("b", "a")]
    assert float_models.candidates(quantized) == floats[::-1]


def test_it_says_why_a_network_cant_be_it(quantized: Network) -> None:
    for why, key in others().items():
        with pytest.raises(Invalid) as refused:
            float_models.choose(quantized, key)
        assert refused.value.fields == {"float_model": why}
    for key in (quantized.pk, 10**30, True, "floats", 0):
        with pytest.raises(Invalid):
            float_models.choose(quantized, key)
    quantized.refresh_from_db()
    assert quantized.float_model is None


def test_a_network_of_floats_has_none(quantized: Network) -> None:
    with pytest.raises(Invalid) as refused:
        float_models.choose(make_network("floats"), quantized.pk)
    assert "floats isn't quantized" in refused.value.fields["float_model"]
