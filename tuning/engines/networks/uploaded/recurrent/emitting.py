"""Writes the ONNX nodes that replace one operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

FAN = 16
"""Most tensors that one `Split` makes or one `Concat` takes. TVM's concatenation asks for each element which tensor it is from."""
Value = str
"""The name of a tensor in the graph."""


@dataclass
class Emitter:
    """Nodes in order, and their constants. `numbers` is the ONNX type of the operator's tensors."""

    prefix: str
    opset: int
    numbers: int
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[tuple[Any, ...], TensorProto] = field(default_factory=dict)

    def __call__(self, op: str, *inputs: Value, **attributes: Any) -> Value:
        """Append a node and return its output."""
        output = f"{self.prefix}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def constant(self, array: NDArray[Any]) -> Value:
        """A constant; equal ones are kept once."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = numpy_helper.from_array(array, f"{self.prefix}constant{len(self.constants)}")
        return self.constants[key].name

    def number(self, value: float) -> Value:
        return self.constant(np.array(value, self.dtype))

    def zeros(self, *shape: int) -> Value:
        return self.constant(np.zeros(shape, self.dtype))

    @property
    def dtype(self) -> np.dtype[Any]:
        return helper.tensor_dtype_to_np_dtype(self.numbers)

    def sum(self, *terms: Value | None) -> Value:
        """The sum of the terms; one that is None is zero, and left out."""
        return reduce(lambda one, other: self("Add", one, other), [term for term in terms if term is not None])

    def slice(self, value: Value, axis: int, start: int, stop: int) -> Value:
        return self("Slice", value, *(self._integers(one) for one in (start, stop, axis)))

    def reshape(self, value: Value, *shape: int) -> Value:
        return self("Reshape", value, self._integers(*shape))

    def clipped(self, value: Value, threshold: float) -> Value:
        """Not by `Clip`, whose bounds TVM's importer checks by operators, for each step anew."""
        for compare, bound in (("Greater", threshold), ("Less", -threshold)):
            bound_value = self.number(bound)
            value = self("Where", self(compare, value, bound_value), bound_value, value)
        return value

    def split(self, value: Value, extent: int) -> list[Value]:
        """The `extent` slices of the first axis, which each keep it."""
        if extent == 1:
            return [value]
        length = _power_below(extent)
        lengths = [min(length, extent - start) for start in range(0, extent, length)]
        parts = self._split(value, lengths)
        return [one for part, length in zip(parts, lengths, strict=True) for one in self.split(part, length)]

    def joined(self, values: list[Value], axis: int = 0) -> Value:
        while len(values) > 1:
            groups = [values[start : start + FAN] for start in range(0, len(values), FAN)]
            values = [self("Concat", *group, axis=axis) if len(group) > 1 else group[0] for group in groups]
        return values[0]

    def name(self, value: Value, output: str) -> None:
        """Let the value be the graph's tensor of this name."""
        self.nodes.append(helper.make_node("Identity", [value], [output], name=output))

    def _split(self, value: Value, lengths: list[int]) -> list[Value]:
        outputs = [f"{self.prefix}{len(self.nodes)}.{nth}" for nth in range(len(lengths))]
        given = [self._integers(*lengths)] if self.opset >= 13 else []
        attributes: dict[str, Any] = {} if given else {"split": lengths}
        self.nodes.append(helper.make_node("Split", [value, *given], outputs, name=outputs[0], axis=0, **attributes))
        return outputs

    def _integers(self, *values: int) -> Value:
        return self.constant(np.array(values, "int64"))


def _power_below(extent: int) -> int:
    """The largest power of `FAN` that is less than `extent`, so that all parts but the last are equal, and their parts, too."""
    power = 1
    while power * FAN < extent:
        power *= FAN
    return power
