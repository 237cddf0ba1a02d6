"""The activation functions that ONNX's recurrent operators can name, as nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .emitting import Emitter, Value

Function = Callable[[Emitter, Value], Value]


class Missing(ValueError):
    """A function has no value for its parameter: `alpha` or `beta`."""

    def __init__(self, name: str, parameter: str) -> None:
        super().__init__(f"its attribute activation_{parameter} has no value for {name}")


@dataclass(frozen=True)
class Activation:
    """An activation function, and its parameters with their defaults; None if ONNX has no default, or ONNX Runtime another one."""

    write: Callable[..., Value]
    parameters: Mapping[str, float | None] = field(default_factory=dict)


def _plain(op: str) -> Callable[..., Value]:
    return lambda emit, x, **parameters: emit(op, x, **parameters)


def _affine(emit: Emitter, x: Value, alpha: float, beta: float) -> Value:
    return emit("Add", emit("Mul", x, emit.number(alpha)), emit.number(beta))


def _scaled_tanh(emit: Emitter, x: Value, alpha: float, beta: float) -> Value:
    return emit("Mul", emit("Tanh", emit("Mul", x, emit.number(beta))), emit.number(alpha))


ACTIVATIONS: dict[str, Activation] = {
    "Affine": Activation(_affine, {"alpha": None, "beta": None}),
    "Elu": Activation(_plain("Elu"), {"alpha": 1.0}),
    "HardSigmoid": Activation(_plain("HardSigmoid"), {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": Activation(_plain("LeakyRelu"), {"alpha": 0.01}),
    "Relu": Activation(_plain("Relu")),
    "ScaledTanh": Activation(_scaled_tanh, {"alpha": None, "beta": None}),
    "Sigmoid": Activation(_plain("Sigmoid")),
    "Softplus": Activation(_plain("Softplus")),
    "Softsign": Activation(_plain("Softsign")),
    "Tanh": Activation(_plain("Tanh")),
    "ThresholdedRelu": Activation(_plain("ThresholdedRelu"), {"alpha": None}),
}
"""By ONNX's names."""
_BY_LOWER_CASE = {name.lower(): name for name in ACTIVATIONS}


def known_name(name: str) -> str | None:
    """The name as ONNX writes it. ONNX Runtime takes any case, so files have others."""
    return _BY_LOWER_CASE.get(name.lower())


def functions(names: Iterable[str], alphas: Iterable[float], betas: Iterable[float]) -> list[Function]:
    """The functions by ONNX's names. In turn, each takes the parameters that it has from the lists, or its defaults once these end.

    Raises `Missing`.
    """
    given = {"alpha": iter(alphas), "beta": iter(betas)}
    return [_function(name, given) for name in names]


def _function(name: str, given: Mapping[str, Iterator[float]]) -> Function:
    activation, parameters = ACTIVATIONS[name], {}
    for parameter, default in activation.parameters.items():
        value = next(given[parameter], default)
        if value is None:
            raise Missing(name, parameter)
        parameters[parameter] = value
    return lambda emit, x: activation.write(emit, x, **parameters)
