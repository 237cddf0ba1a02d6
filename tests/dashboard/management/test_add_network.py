from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests import models
from tests.tuning.engines.quantized import Qdq, in_floats
from tuning.models import Network

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.tvm]


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path / "var"
    settings.VAR.mkdir()
    (tmp_path / "net.onnx").write_bytes(models.dense("rows").SerializeToString())


def add(file: Path, *options: str) -> str:
    said = io.StringIO()
    call_command("add_network", str(file), *options, stdout=said)
    return said.getvalue()


def test_it_adds_a_model_once(tmp_path: Path) -> None:
    assert "Added net." in add(tmp_path / "net.onnx", "--dim", "rows=4")
    assert "Exists already: net." in add(tmp_path / "net.onnx", "--dim", "rows=4", "--name", "other")
    shown = json.loads(add(tmp_path / "net.onnx", "--dim", "rows=8", "--name", "wide", "--json"))
    assert (shown["name"], shown["dims"], shown["inputs"][0]["shape"]) == ("wide", {"rows": 8}, [8, 16])
    assert sorted(Network.objects.values_list("name", flat=True)) == ["net", "wide"]


def test_several_values_of_a_dimension_make_a_network_each(tmp_path: Path) -> None:
    said = add(tmp_path / "net.onnx", "--dim", "rows=1,8", "--name", "mine")
    assert "Added mine-rows1 and mine-rows8. To tune it: manage.py tune mine-rows1" in said
    assert [one.inputs[0]["shape"] for one in Network.objects.order_by("name")] == [[1, 16], [8, 16]]


def test_a_quantized_model_names_the_one_that_it_was_made_from(tmp_path: Path) -> None:
    model = Qdq((4, 16))
    model.gemm(10)
    in_floats(model.saved(tmp_path / "int8.onnx", (4, 16)), tmp_path / "floats.onnx")
    with pytest.raises(CommandError, match="--float-model: The project default has no network floats"):
        add(tmp_path / "int8.onnx", "--float-model", "floats")
    assert not Network.objects.exists()
    add(tmp_path / "floats.onnx")
    shown = json.loads(add(tmp_path / "int8.onnx", "--float-model", "floats", "--json"))
    assert shown["float_model"] == Network.objects.get(name="floats").pk
    with pytest.raises(CommandError, match="--float-model: net isn't quantized"):
        add(tmp_path / "net.onnx", "--dim", "rows=4", "--float-model", "int8")
    with pytest.raises(CommandError, match="--float-model: It has one shape of each input"):
        add(tmp_path / "net.onnx", "--dim", "rows=4,8", "--float-model", "floats")
    assert Network.objects.count() == 2, "nothing is stored of what was wrong"


@pytest.mark.parametrize(
    ("file", "options", "said"),
    [
        ("none.onnx", [], "No such file"),
        ("net.onnx", [], "dims.rows: The model leaves this dimension open"),
        ("net.onnx", ["--dim", "rows=many"], "dims.rows: Must be a whole number"),
        ("net.onnx", ["--dim", "rows"], "write NAME=N"),
        ("net.onnx", ["--dim", "rows=1", "--name", "mlp"], "name: A built-in"),
    ],
)
def test_it_says_what_is_wrong(tmp_path: Path, file: str, options: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said) as error:
        add(tmp_path / file, *options)
    assert error.value.returncode == 2
    assert not Network.objects.exists()
