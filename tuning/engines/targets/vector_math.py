"""Computes exp, erf and tanh of float32 by vector arithmetic on CPUs, instead of calling the C library for each element.

A call of `expf` or `erff` takes as long as dozens of multiplications, more for some numbers than for others, and keeps its loop from
being vectorized. TVM lowers such intrinsics after scheduling, so neither tasks nor records change by this.

All propagate NaN. exp is within 1.1 units in the last place of the true value, with infinity and denormals where they belong;
erf and tanh are within 5e-7. Polynomials: Cephes (exp), Eigen (erf, tanh).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
LOG2_E = 1.44269504088896341
LN2 = (0.693359375, -2.12194440e-4)
"""The sum is ln 2. The first has few enough bits that its product with a small integer is exact."""
EXP_RANGE = (-104.0, 89.0)
"""Below, exp is 0 in float32; above, infinity."""

ERF_ABOVE = (-2.72614225801306e-10, 2.77068142495902e-8, -2.10102402082508e-6, -5.69250639462346e-5,
             -7.34990630326855e-4, -2.95459980854025e-3, -1.60960333262415e-2)  # fmt: skip
ERF_BELOW = (-1.45660718464996e-5, -2.13374055278905e-4, -1.68282697438203e-3, -7.37332916720468e-3,
             -1.42647390514189e-2)  # fmt: skip
ERF_LIMIT = 4.0
TANH_ABOVE = (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-8,
              1.48572235717979e-5, 6.37261928875436e-4, 4.89352455891786e-3)  # fmt: skip
TANH_BELOW = (1.19825839466702e-6, 1.18534705686654e-4, 2.26843463243900e-3, 4.89352518554385e-3)
TANH_LIMIT = 7.90531110763549805

Value = Any
"""An expression of TVM's, a scalar or a vector."""


@cache
def use() -> None:
    """Lower code for CPUs so, from now on in this process and its forks."""
    from tvm.ir.op import register_op_attr
    from tvm.tirx import register_intrin_lowering

    rules = {
        "exp": _exp,
        "erf": _quotient(ERF_ABOVE, ERF_BELOW, ERF_LIMIT),
        "tanh": _quotient(TANH_ABOVE, TANH_BELOW, TANH_LIMIT),
    }
    for name, rule in rules.items():
        # TVM's own rules have level 10.
        register_intrin_lowering(f"tirx.{name}", "llvm", f=_for_floats(rule), level=11)
    # TVM keeps loops with erf scalar, since its own rule calls the C library.
    register_op_attr("tirx.erf", "TVectorizable", value=True, level=11)


def _for_floats(rule: Callable[[Value], Value]) -> Callable[[Any], Any]:
    """The rule for float32, and for float16 by float32. float64 is left to the C library."""

    def lowered(call: Any) -> Any:
        (x,), dtype = call.args, str(call.ty.dtype)
        scalar, _, lanes = dtype.partition("x")
        if lanes and not lanes.isdigit():
            return call  # A vector as long as the CPU's, for which there are no constants.
        if scalar == "float32":
            return rule(x)
        if scalar == "float16":
            return rule(x.astype(_as("float32", x))).astype(dtype)
        return _one_by_one(call)

    return lowered


def _one_by_one(call: Any) -> Any:
    """Calls for each element of a vector, which the C library's functions don't take. The call itself for a scalar."""
    from tvm.tirx import Shuffle, call_intrin

    (x,), dtype = call.args, str(call.ty.dtype)
    scalar, _, lanes = dtype.partition("x")
    if not lanes:
        return call
    elements = [call_intrin(scalar, call.op, Shuffle([x], [nth])) for nth in range(int(lanes))]
    return Shuffle(elements, list(range(int(lanes))))


def _exp(x: Value) -> Value:
    """2ⁿ · exp(r), where r is within ± ln 2 / 2."""
    return _bound(_within(x, *EXP_RANGE), lambda x: _bound(_whole(x), lambda n: _scaled(x, n)))


def _whole(x: Value) -> Value:
    """The n next to x / ln 2, and some integer for NaN, whose conversion would be undefined.

    Truncated, since the smallest x86 CPUs have an instruction for that, and call a function for `nearbyint`.
    """
    from tvm.tirx import Select

    least = _like(x, EXP_RANGE[0])
    number = Select(x > least, x, least) * _like(x, LOG2_E)
    half = Select(x < _like(x, 0.0), _like(x, -0.5), _like(x, 0.5))
    return (number + half).astype(_as("int32", x))


def _scaled(x: Value, n: Value) -> Value:
    """The powers in two halves: 2ⁿ itself may be a denormal, or infinity where the product isn't."""
    half = n >> _like(n, 1)
    return _bound(_remainder(x, n.astype(str(x.ty.dtype))), _exp_of_small) * _power(half) * _power(n - half)


def _remainder(x: Value, n: Value) -> Value:
    return x - n * _like(n, LN2[0]) - n * _like(n, LN2[1])


def _exp_of_small(r: Value) -> Value:
    return _polynomial(r, EXP) * (r * r) + r + _like(r, 1.0)


def _power(n: Value) -> Value:
    """2ⁿ, by the bits of a number's exponent."""
    from tvm.tirx import reinterpret

    return reinterpret(_as("float32", n), (n + _like(n, 127)) << _like(n, 23))


def _quotient(above: Sequence[float], below: Sequence[float], limit: float) -> Callable[[Value], Value]:
    """An odd function that is ± 1 beyond the limit: x · p(x²) / q(x²)."""

    def rule(x: Value) -> Value:
        return _bound(
            _within(x, -limit, limit),
            lambda x: _bound(x * x, lambda square: x * _polynomial(square, above) / _polynomial(square, below)),
        )

    return rule


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """By Horner's rule, highest power first."""
    total = _like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + _like(x, coefficient)
    return total


def _within(x: Value, least: float, most: float) -> Value:
    """NaN stays NaN: every comparison with it is false."""
    from tvm.tirx import Select

    return _bound(
        Select(x < _like(x, least), _like(x, least), x), lambda x: Select(x > _like(x, most), _like(x, most), x)
    )


def _like(x: Value, value: float) -> Value:
    """A constant of x's type."""
    from tvm.tirx import const

    return const(value, str(x.ty.dtype))


def _as(dtype: str, x: Value) -> str:
    """The type with as many lanes as x has."""
    _, lanes, count = str(x.ty.dtype).partition("x")
    return f"{dtype}{lanes}{count}"


def _bound(value: Value, body: Callable[[Value], Value]) -> Value:
    """The body of a variable for the value, so that code for the value is generated once however often it occurs."""
    from tvm.tirx import Let, Var

    name = Var("x", str(value.ty.dtype))
    return Let(name, value, body(name))
