"""What networks that PyTorch exported compute after TVM has built them, compared with what PyTorch computes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import ModelFile
from tuning.host import pytorch

NETWORKS = Path(__file__).with_name("torch_networks.py")
pytestmark = [pytest.mark.tvm, pytest.mark.rare, pytest.mark.usefixtures("with_torch")]


@pytest.fixture(scope="module")
def saved(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs, and of what goes into and comes out of each."""
    folder = tmp_path_factory.mktemp("networks")
    subprocess.run([torch_python, NETWORKS, folder], check=True)
    return folder


@pytest.mark.parametrize(
    ("name", "dims", "tolerance"),
    [
        ("attention", {"x.0": 2, "x.1": 16}, 1e-5),
        ("lstm", {}, 1e-5),
        ("gru", {}, 1e-5),
        ("unet", {"x.0": 2, "x.2": 16, "x.3": 16}, 1e-5),
        ("half", {}, 2e-3),
        ("named", {}, 1e-5),
    ],
)
def test_it_computes_what_pytorch_does(
    saved: Path, tmp_path: Path, name: str, dims: dict[str, int], tolerance: float
) -> None:
    made = pytorch.convert(saved / f"{name}.pt2", [dims], tmp_path)
    known = np.load(saved / f"{name}.npz")
    outputs = computed(ModelFile("onnx", str(made.path), dims), [known[key] for key in known if "input" in key])
    expected = [known[key] for key in known if "output" in key]
    assert len(outputs) == len(expected)
    for one, other in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)


def test_a_network_in_training_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"The program changes .*1\.running_mean.* whenever it runs.*model\.eval"):
        pytorch.convert(saved / "training.pt2", {}, tmp_path)


def computed(file: ModelFile, inputs: list[Any]) -> list[Any]:
    import tvm
    from tvm import relax

    from tuning.engines.networks import uploaded

    built = relax.build(uploaded.build(file).mod, tvm.target.Target("llvm"))
    result = relax.VirtualMachine(built, tvm.cpu())["main"](*(tvm.runtime.tensor(one) for one in inputs))
    return [one.numpy() for one in ([result] if hasattr(result, "numpy") else list(result))]
