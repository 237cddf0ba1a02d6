"""Built-in networks as ONNX files compute the same as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.reference import Reference
from tuning.engines.wire.protocol import NetworkSpec

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("mlp", None),
        ("conv2d", None),
        ("resnet-18", 32),
        ("mobilenet", 32),
        ("squeezenet_v1.1", 32),
        pytest.param("inception_v3", 75, marks=pytest.mark.rare),
        pytest.param("resnet3d-18", 8, marks=pytest.mark.rare),
    ],
)
def test_it_computes_what_the_network_does(name: str, image: int | None) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from tuning.engines import networks
    from tuning.engines.wire.catalog import options_of

    options: dict[str, Any] = {"size": 8, "channels": 4} if name == "conv2d" else {}
    spec = NetworkSpec(name, options)
    random = np.random.default_rng(1)
    ((key, shape),) = networks.shapes(name, options_of(name, options), image).items()
    x = random.standard_normal(shape, dtype=np.float32)
    expected = networks.BODIES[name](Reference(), x)
    session = onnxruntime.InferenceSession(networks.to_onnx(spec, image=image), providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {key: np.moveaxis(x, -1, 1) if x.ndim > 2 else x})
    given = np.moveaxis(output, 1, -1) if output.ndim > 2 else output
    np.testing.assert_allclose(given, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
