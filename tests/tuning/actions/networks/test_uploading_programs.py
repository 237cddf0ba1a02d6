"""An uploaded program of `torch.export` becomes an ONNX file, which is what is stored and read from then on."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.files import File

from tests import exported
from tests.replacing import WAYS, assert_untouched, canary_in, kernel, replace
from tuning.actions.networks import uploading
from tuning.engines.wire.pytorch import Converting
from tuning.engines.wire.question import Reach
from tuning.host import pytorch
from tuning.models import AuditEntry, Network, Project, networks_dir
from tuning.validation import Invalid

__all__ = ("kernel",)
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.tvm]


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path


def upload(data: bytes = exported.CONVNET, file_name: str = "convnet.pt2", **more: Any) -> tuple[Network, bool]:
    return uploading.upload(File(io.BytesIO(data), file_name), Project.objects.default(), None, **more)


def refused(data: bytes = exported.CONVNET, file_name: str = "convnet.pt2", **more: Any) -> dict[str, str]:
    """What is wrong, by field; nothing is kept."""
    with pytest.raises(Invalid) as wrong:
        upload(data, file_name, **more)
    assert not Network.objects.exists()
    assert list(networks_dir().glob("*")) == []
    return wrong.value.fields


def test_without_an_interpreter_it_says_what_to_set_up(settings: Any) -> None:
    settings.TORCH_PYTHON = None
    assert refused() == {"file": pytorch.NO_PYTHON}


@pytest.mark.parametrize(
    ("data", "file_name", "words"),
    [
        (exported.archive({"data.pkl": b"", "code/net.py": b""}), "net.pt", "The file is TorchScript"),
        (exported.archive({"data.pkl": b""}), "net.pth", "The file is a pickle"),
        (b"\x80\x02}q\x00.", "net", "The file is a pickle"),
        (exported.archive({"net.onnx": b""}), "net.onnx", "Unpack it and upload the model inside"),
        (b"nonsense", "net.pt2", "not a complete archive"),
    ],
)
def test_what_torch_saves_otherwise_is_refused_whatever_the_site_has(
    settings: Any, data: bytes, file_name: str, words: str
) -> None:
    settings.TORCH_PYTHON = None
    assert words in refused(data, file_name)["file"]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("how", [way for way in WAYS if way != "link to the folder"])
def test_what_pytorch_writes_is_read_only_if_it_is_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    canary = canary_in(tmp_path_factory.mktemp("outside"))

    def convert(_file: Path, _values: Any, folder: Path) -> pytorch.Made:
        replace(folder / "program.onnx", how, canary)
        return pytorch.Made(folder / "program.onnx", "2.9", {})

    monkeypatch.setattr(pytorch, "convert", convert)
    assert refused() == {"file": "PyTorch's process wrote no file."}
    assert_untouched(canary)


def test_pytorchs_process_is_allowed_nothing_that_the_one_before_it_could_have_put_in_the_copys_place() -> None:
    """A path that a process may read is allowed wherever links lead."""
    folder = "/var/incoming"
    asked = Converting(path=f"{folder}/program.pt2", to="x", folder=folder, dims={}, memory_mb=1, cpu_s=1)
    assert asked.reach() == Reach(writes=(folder,))


@pytest.mark.parametrize(
    ("dims", "wrong"),
    [
        ({}, {"dims.input.0": "The model leaves this dimension open: enter its value."}),
        ({"input.0": 65}, {"dims.input.0": "The program was exported for at least 1 and at most 64."}),
        ({"input.0": 2, "N": 1}, {"dims.N": "The model has no open dimension of this name."}),
    ],
)
def test_open_dimensions_are_asked_for_before_pytorch_is_started(
    settings: Any, dims: dict[str, int], wrong: dict[str, str]
) -> None:
    settings.TORCH_PYTHON = Path("/bin/false")
    assert refused(dims=dims) == wrong


def test_an_interpreter_without_pytorch_says_what_is_missing(settings: Any) -> None:
    settings.TORCH_PYTHON = Path(sys.executable)
    assert refused(dims={"input.0": 2})["file"].startswith(
        "The interpreter of TUNEBOARD_TORCH_PYTHON isn't complete: torch can't be imported: ModuleNotFoundError"
    )


def test_an_interpreter_that_dies_is_named(settings: Any) -> None:
    settings.TORCH_PYTHON = Path("/bin/false")
    assert "PyTorch crashed" in refused(dims={"input.0": 2})["file"]


@pytest.mark.usefixtures("with_torch")
class TestWithPyTorch:
    def test_it_is_stored_as_onnx_with_what_it_came_from(self) -> None:
        network, new = upload(dims={"input.0": 2})
        assert new
        assert (network.name, network.kind, network.file_name, network.format_label) == (
            "convnet",
            "onnx",
            "convnet.pt2",
            "PyTorch",
        )
        assert network.inputs == [{"name": "input", "shape": [2, 1, 4, 4], "dtype": "float32"}]
        assert network.parameters == exported.PARAMETERS
        assert {"Conv": 1, "Relu": 1, "Gemm": 1}.items() <= network.operators.items()
        source = network.to_dict()["source"]
        assert source is not None
        assert (source["format"], source["saved_by"], source["size"]) == ("pt2", "2.13.0+cpu", len(exported.CONVNET))
        assert source["versions"].keys() == {"python", "torch", "onnx", "onnxscript"}
        assert list(networks_dir().glob("*")) == [network.file]
        assert network.file.suffix == ".onnx"
        spec = network.spec()
        assert spec.file is not None
        assert (spec.file.format, spec.file.dims) == ("onnx", {"input.0": 2})
        (entry,) = AuditEntry.objects.filter(action="network.upload")
        assert entry.details["sha256"] == source["sha256"] != network.sha256
        assert upload(file_name="again.pt2", dims={"input.0": 2}) == (network, False)

    def test_a_program_that_pytorch_cannot_convert_is_refused_with_its_reason(self) -> None:
        def ask_for_another(program: Any) -> None:
            exported.graph(program)["nodes"][2]["target"] = "torch.ops.aten.no_such_operator.default"

        said = refused(exported.changed(ask_for_another), dims={"input.0": 2})["file"]
        assert "PyTorch can't convert the program" in said
        assert said.endswith("(The program was saved by PyTorch 2.13.0+cpu.)")
