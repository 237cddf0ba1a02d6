"""Makes small ONNX models of several convolutions, for images, sounds and videos, and computes networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tuning.engines.wire.protocol import ModelFile, NetworkSpec


def outputs(mod: Any, data: Any) -> Any:
    """What the network computes, without any schedules."""
    import tvm
    from tvm import relax
    from tvm.target import Target

    from tuning.engines.networks import extraction

    target = Target({"kind": "llvm", "num-cores": 2})
    library = relax.build(extraction.legalized(mod, target), target)
    return relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()


def functions(mod: Any, target: dict[str, Any]) -> list[Any]:
    """The network's tasks, each as a module of one function."""
    from tvm.target import Target

    from tuning.engines.networks import extraction

    tasks = extraction.extract(extraction.legalized(mod, Target(target)), Target(target))
    return [task.dispatched[0] for task in tasks]


def in_whole_vectors(rewriting: Any, mod: Any, target: dict[str, Any]) -> Any:
    """The network as `rewriting` of columns or filters has it for the target's CPU."""
    from tvm.target import Target

    from tuning.engines.targets.registers import registers

    known = registers(Target(target))
    assert known
    return rewriting.in_whole_vectors(mod, known)


class Model:
    """A model that grows by one operator at a time, of 8 channels."""

    def __init__(self, *image: int) -> None:
        self.image = image
        self._random = np.random.default_rng(4)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._value = "x"

    def const(self, value: Any) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self._constants)}"))
        return f"c{len(self._constants) - 1}"

    def node(self, kind: str, *more: str, **attributes: Any) -> None:
        name = f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, [self._value, *more], [name], **attributes))
        self._value = name

    def conv(
        self, kind: str = "Conv", kernel: int = 3, groups: int = 1, *, has_bias: bool = True, **attributes: Any
    ) -> None:
        shape = (8, 8 // groups, *[kernel] * len(self.image))
        weights = self._random.standard_normal(shape, dtype="float32") / 8
        bias = [self.const(self._random.standard_normal(8, dtype="float32"))] if has_bias else []
        self.node(kind, self.const(weights), *bias, group=groups, **attributes)

    def batch_norm(self) -> None:
        """Its scales and variances are positive."""
        scale, variance = self._random.random((2, 8), dtype="float32") + np.float32(0.5)
        shift, mean = self._random.standard_normal((2, 8), dtype="float32")
        self.node("BatchNormalization", *map(self.const, (scale, shift, mean, variance)))

    def block(self) -> None:
        """Two convolutions with padding, and what they are added to."""
        before, padding = self._value, [1] * 2 * len(self.image)
        self.conv(pads=padding)
        self.node("Relu")
        self.conv(pads=padding)
        self.node("Add", before)

    def made(self) -> ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 8, *self.image))
        y = helper.make_tensor_value_info(self._value, TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, "model", [x], [y], self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def saved(self, path: Path) -> NetworkSpec:
        path.write_bytes(self.made().SerializeToString())
        return NetworkSpec("model", {}, ModelFile("onnx", str(path)))


def classifier() -> Model:
    """As networks of images are: what isn't a convolution works on either layout, until the images are gone."""
    model = Model(12, 12)
    for _ in range(4):
        model.block()
        model.node("MaxPool", kernel_shape=[2, 2], strides=[1, 1])
    model.conv(groups=8)
    model.node("GlobalAveragePool")
    model.node("Flatten")
    return model


def autoencoder() -> Model:
    """It ends in an image, by transposed convolutions of which TVM has no function with channels last."""
    model = Model(8, 8)
    for _ in range(3):
        model.block()
    model.conv("ConvTranspose", 2, strides=[2, 2])
    model.block()
    model.conv("ConvTranspose", 4, strides=[2, 2], pads=[1, 1, 1, 1])
    return model


def of_sounds() -> Model:
    model = Model(32)
    for _ in range(4):
        model.block()
    model.conv("ConvTranspose", 4, strides=[2], pads=[1, 1])
    return model


def of_videos() -> Model:
    model = Model(4, 6, 6)
    for _ in range(4):
        model.block()
    return model


def with_an_odd_output() -> Model:
    """Its transposed convolution can't be computed by phase."""
    model = Model(6, 6)
    for _ in range(8):
        model.block()
    model.conv("ConvTranspose", 3, strides=[2, 2], pads=[1, 1, 1, 1])
    return model
