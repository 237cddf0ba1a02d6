"""How long uploaded networks take to be read and laid out, beside TVM's pass alone computing their constants.

Run it as a program. It prints the table of docs/benchmarks.md: the medians of seconds, measured in turn, and of their ratios.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tvm.target import Target

from tuning.engines import networks
from tuning.engines.networks.uploaded import constants
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import ModelFile, NetworkSpec

from .models import MODELS

CPU = {"kind": "llvm", "num-cores": 2}
HEADER = "| Network | TVM's pass alone (s) | NumPy first (s) | Ratio |\n| --- | --- | --- | --- |"


def main() -> None:
    """Prints one row after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=sorted(FILES), default=list(FILES))
    parser.add_argument("--repeats", type=int, default=3, help="pairs of measurements of each network")
    asked = parser.parse_args()
    _say(HEADER)
    for name in asked.networks:
        _say(row(name, measured(FILES[name](), asked.repeats)))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def measured(data: bytes, repeats: int) -> list[tuple[float, float]]:
    """Seconds with TVM's pass alone, and with NumPy first, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        network = NetworkSpec("model", {}, ModelFile("onnx", str(path)))
        _prepare(network)  # The first time, modules are loaded.
        return [(_by_tvm_alone(network), _prepare(network)) for _ in range(repeats)]


def _by_tvm_alone(network: NetworkSpec) -> float:
    with mock.patch.object(constants, "computed", return_value=None):
        return _prepare(network)


def _prepare(network: NetworkSpec) -> float:
    began = time.perf_counter()
    rewrites = Rewrites(channels_last=True, as_extrema=True, by_phase=True)
    networks.as_tuned(networks.build(network), Target(CPU), rewrites)
    return time.perf_counter() - began


def row(name: str, pairs: list[tuple[float, float]]) -> str:
    """The row of a network in the table."""
    ratios = [ours / alone for alone, ours in pairs]
    alone, ours = (median(side) for side in zip(*pairs, strict=True))
    return f"| {name} | {alone:.2f} | {ours:.2f} | {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"


def with_batch_norms(data: bytes) -> bytes:
    """The model with a batch norm after each convolution in place of its bias, as trained models have."""
    model, random = onnx.load_from_string(data), np.random.default_rng(1)
    filters = {one.name: one.dims[0] for one in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Conv":
            nodes.append(node)
            continue
        (output,), (x, weights, *_) = node.output, node.input
        conv = helper.make_node("Conv", [x, weights], [f"{output}_before"])
        conv.attribute.extend(node.attribute)
        names = [f"{output}_{what}" for what in ("scale", "shift", "mean", "variance")]
        nodes += [conv, helper.make_node("BatchNormalization", [*conv.output, *names], [output])]
        values = random.random((len(names), filters[weights]), dtype="float32") + np.float32(0.5)
        model.graph.initializer.extend(map(numpy_helper.from_array, values, names))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return bytes(model.SerializeToString())


def _built_in(name: str, change: Callable[[bytes], bytes] = lambda data: data) -> Callable[[], bytes]:
    return lambda: change(networks.to_onnx(NetworkSpec(name)))


FILES: Mapping[str, Callable[[], bytes]] = {
    "resnet-50": _built_in("resnet-50"),
    "resnet-50 with batch norms": _built_in("resnet-50", with_batch_norms),
    "inception_v3": _built_in("inception_v3"),
    "inception_v3 with batch norms": _built_in("inception_v3", with_batch_norms),
    **{name: MODELS[name] for name in ("yolov3-tiny", "unet")},
}
"""Makes each network's ONNX file."""

if __name__ == "__main__":
    main()
