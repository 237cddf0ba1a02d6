"""What recurrent operators compute in one step, by ONNX's equations.

The input's part of the gates is computed for all steps before, in one matrix product. A step adds the product of the state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .emitting import Emitter, Value
from .reading import GATES, Direction, Recurrent

State = tuple[Value, ...]
"""H, and of an LSTM C: each of the shape (1, batch, hidden)."""


class Cell(ABC):
    """One direction of a node. Gates are along the last axis of weights and values, in ONNX's order."""

    def __init__(self, emit: Emitter, node: Recurrent, direction: Direction) -> None:
        self.emit, self.node, self.direction = emit, node, direction
        self.zero = emit.zeros(1, node.batch, node.hidden)
        """The state before the first step, if the node gives none."""
        transposed = [emit("Transpose", self.weight(name), perm=[1, 0]) for name in ("W", "R")]
        self.input_weights, self.state_weights = transposed
        bias = self.weight("B") if "B" in node.inputs else None
        rows = GATES[node.op] * node.hidden
        self.input_bias = emit.slice(bias, 0, 0, rows) if bias else None
        self.state_bias = emit.slice(bias, 0, rows, 2 * rows) if bias else None

    def inputs(self, x: Value) -> list[Value]:
        """The input's part of the gates with all biases, (steps, batch, gates × hidden), in as many values as a step takes."""
        product = self.emit("MatMul", x, self.input_weights)
        return [self.emit.sum(product, self.bias())]

    def bias(self) -> Value | None:
        """What is added to the gates whatever the state."""
        return self.emit.sum(self.input_bias, self.state_bias) if self.input_bias else None

    @abstractmethod
    def step(self, inputs: Sequence[Value], state: State) -> State:
        """The next state."""

    def weight(self, name: str) -> Value:
        return self.emit("Gather", self.node.inputs[name], self.emit.constant(np.array(self.direction.nth)), axis=0)

    def gates(self, value: Value, nth: int, count: int = 1, axis: int = 2) -> Value:
        """Some gates of all."""
        return self.emit.slice(value, axis, nth * self.node.hidden, (nth + count) * self.node.hidden)

    def product(self, h: Value, weights: Value) -> Value | None:
        """None if it is zero."""
        return None if h == self.zero else self.emit("MatMul", h, weights)

    def activated(self, nth: int, *terms: Value | None) -> Value:
        """The node's activation function of the sum, which is clipped before if the node says so."""
        value = self.emit.sum(*terms)
        if self.node.clip is not None:
            value = self.emit.clipped(value, self.node.clip)
        return self.direction.activations[nth](self.emit, value)


class Rnn(Cell):
    def step(self, inputs: Sequence[Value], state: State) -> State:
        return (self.activated(0, self.product(state[0], self.state_weights), inputs[0]),)


class Lstm(Cell):
    """Gates: input, output, forget, cell."""

    def __init__(self, emit: Emitter, node: Recurrent, direction: Direction) -> None:
        super().__init__(emit, node, direction)
        weights = self.weight("P") if "P" in node.inputs else None
        self.peepholes = [self.gates(weights, nth, axis=0) for nth in range(3)] if weights else []
        """Of the input, output and forget gate."""

    def step(self, inputs: Sequence[Value], state: State) -> State:
        emit, (h, c) = self.emit, state
        gates = emit.sum(self.product(h, self.state_weights), inputs[0])
        i = self.activated(0, self.gates(gates, 0), self._peephole(0, c))
        f = self._forget(gates, i, c)
        c = emit("Add", emit("Mul", f, c), emit("Mul", i, self.activated(1, self.gates(gates, 3))))
        o = self.activated(0, self.gates(gates, 1), self._peephole(1, c))
        # ONNX Runtime clips what goes into the gates, but not C.
        return emit("Mul", o, self.direction.activations[2](emit, c)), c

    def _forget(self, gates: Value, i: Value, c: Value) -> Value:
        if self.node.is_flagged:
            return self.emit("Sub", self.emit.number(1), i)
        return self.activated(0, self.gates(gates, 2), self._peephole(2, c))

    def _peephole(self, nth: int, c: Value) -> Value | None:
        return None if not self.peepholes or c == self.zero else self.emit("Mul", self.peepholes[nth], c)


class Gru(Cell):
    """Gates: update, reset, hidden. The reset gate is multiplied with the state, before its product."""

    def __init__(self, emit: Emitter, node: Recurrent, direction: Direction) -> None:
        super().__init__(emit, node, direction)
        self.both_weights = self.gates(self.state_weights, 0, 2, axis=1)
        self.hidden_weights = self.gates(self.state_weights, 2, axis=1)

    def inputs(self, x: Value) -> list[Value]:
        (gates,) = super().inputs(x)
        return [self.gates(gates, 0, 2), self.gates(gates, 2)]

    def step(self, inputs: Sequence[Value], state: State) -> State:
        (h,) = state
        both = self.emit.sum(self.product(h, self.both_weights), inputs[0])
        z, r = self.activated(0, self.gates(both, 0)), self.activated(0, self.gates(both, 1))
        reset = h if h == self.zero else self.emit("Mul", r, h)
        hidden = self.activated(1, self.product(reset, self.hidden_weights), inputs[1])
        return (self.mixed(z, hidden, h),)

    def mixed(self, z: Value, hidden: Value, h: Value) -> Value:
        emit = self.emit
        return emit("Add", emit("Mul", emit("Sub", emit.number(1), z), hidden), emit("Mul", z, h))


class LinearGru(Gru):
    """With `linear_before_reset`: the reset gate is multiplied with the state's product and its bias."""

    def __init__(self, emit: Emitter, node: Recurrent, direction: Direction) -> None:
        Cell.__init__(self, emit, node, direction)
        self.hidden_bias = self.gates(self.state_bias, 2, axis=0) if self.state_bias else None

    def inputs(self, x: Value) -> list[Value]:
        return Cell.inputs(self, x)

    def bias(self) -> Value | None:
        if self.input_bias is None or self.state_bias is None:
            return None
        both = self.emit.sum(*(self.gates(bias, 0, 2, axis=0) for bias in (self.input_bias, self.state_bias)))
        return self.emit("Concat", both, self.gates(self.input_bias, 2, axis=0), axis=0)

    def step(self, inputs: Sequence[Value], state: State) -> State:
        (h,), (x,) = state, inputs
        product = self.product(h, self.state_weights) or self.emit.zeros(1, self.node.batch, 3 * self.node.hidden)
        z, r = (self.activated(0, self.gates(product, nth), self.gates(x, nth)) for nth in (0, 1))
        reset = self.emit("Mul", r, self.emit.sum(self.gates(product, 2), self.hidden_bias))
        return (self.mixed(z, self.activated(1, reset, self.gates(x, 2)), h),)


def cell(emit: Emitter, node: Recurrent, direction: Direction) -> Cell:
    kinds: dict[str, type[Cell]] = {"RNN": Rnn, "LSTM": Lstm, "GRU": LinearGru if node.is_flagged else Gru}
    return kinds[node.op](emit, node, direction)
