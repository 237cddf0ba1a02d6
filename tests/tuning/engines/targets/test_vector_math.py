from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuning.engines.targets import vector_math

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

TRUE: dict[str, Callable[[Any], Any]] = {"exp": np.exp, "erf": np.vectorize(math.erf), "tanh": np.tanh}
SMALLEST = float(np.finfo("float32").smallest_subnormal)


def module(function: str, size: int, dtype: str = "float32", lanes: int = 16) -> Any:
    """A function of each element, computed in vectors of so many elements."""
    import tvm
    from tvm import te, tirx

    source = te.placeholder((size,), dtype, name="A")
    result = te.compute((size,), lambda i: getattr(tirx, function)(source[i]), name="B")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([source, result]))
    (loop,) = schedule.get_loops(schedule.get_sblock("B"))
    schedule.vectorize(schedule.split(loop, [None, lanes])[1])
    return schedule.mod


def target() -> dict[str, Any]:
    from tvm.target import codegen

    return {"kind": "llvm", "mcpu": str(codegen.llvm_get_system_cpu())}


def built_for(described: dict[str, Any], made: Any) -> Any:
    import tvm
    from tvm.target import Target

    vector_math.use()
    return tvm.tirx.build(made, target=Target(described))


def computed(function: str, values: Any) -> Any:
    import tvm

    built = built_for(target(), module(function, values.size, str(values.dtype)))
    result = tvm.runtime.tensor(np.zeros_like(values))
    built["main"](tvm.runtime.tensor(values), result)
    return result.numpy()


@pytest.mark.parametrize(("function", "within"), [("erf", 5e-7), ("tanh", 5e-7)])
def test_erf_and_tanh_are_within_five_units_of_the_seventh_digit(function: str, within: float) -> None:
    values = np.linspace(-12, 12, 1 << 16).astype("float32")
    assert np.abs(computed(function, values) - TRUE[function](values.astype("float64"))).max() < within


def test_exp_is_within_a_unit_in_the_last_place() -> None:
    values = np.linspace(-87, 88.7, 1 << 16).astype("float32")
    true = np.exp(values.astype("float64"))
    assert (np.abs(computed("exp", values) - true) / np.spacing(true.astype("float32"))).max() < 1.1


def test_exp_becomes_infinite_and_denormal_where_it_should() -> None:
    values = np.array(
        [88.72283, 88.73, 1e3, np.inf, -87.4, -95.0, -103.0, -104.5, -1e3, -np.inf] + [0.0] * 6, "float32"
    )
    with np.errstate(over="ignore"):
        true = np.exp(values.astype("float64")).astype("float32")
    given = computed("exp", values)
    assert np.array_equal(np.isinf(given), np.isinf(true))
    denormal = values < -87.3
    assert np.abs(given[denormal] - true[denormal]).max() <= SMALLEST
    assert given[0] == pytest.approx(float(true[0]), rel=2e-7)


@pytest.mark.parametrize("function", sorted(TRUE))
def test_nan_stays_nan_and_the_ends_are_right(function: str) -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0] * 4, "float32")
    given = computed(function, values)
    assert np.array_equal(np.isnan(given), np.isnan(values))
    assert given[1:4] == pytest.approx(TRUE[function](values[1:4].astype("float64")), abs=5e-7)


@pytest.mark.parametrize("function", sorted(TRUE))
def test_float16_is_computed_by_float32(function: str) -> None:
    values = np.linspace(-9, 9, 1 << 12).astype("float16")
    true = TRUE[function](values.astype("float64"))
    assert (np.abs(computed(function, values) - true) / np.spacing(true.astype("float16"))).max() < 0.51


@pytest.mark.parametrize("function", sorted(TRUE))
def test_float64_is_left_to_the_c_library(function: str) -> None:
    values = np.linspace(-3, 3, 64)
    assert computed(function, values) == pytest.approx(TRUE[function](values), rel=1e-15)


@pytest.mark.parametrize("function", sorted(TRUE))
def test_bfloat16_is_computed_by_float32(function: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.linspace(-9, 9, 1 << 10).astype(ml_dtypes.bfloat16)
    true = TRUE[function](values.astype("float64"))
    error = np.abs(computed(function, values).astype("float64") - true)
    assert (error <= np.maximum(np.abs(true), 1e-6) * 2.0**-8).all()


@pytest.mark.parametrize("function", sorted(TRUE))
@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_the_least_x86_cpus_need_no_function_either(function: str, lanes: int) -> None:
    """They have no instruction that rounds, and vectors of four."""
    built = built_for({"kind": "llvm"}, module(function, 64, lanes=lanes))
    assert called(built) == set()


@pytest.mark.parametrize("function", sorted(TRUE))
def test_code_for_arm_is_made_of_vectors(function: str) -> None:
    target = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}
    built = built_for(target, module(function, 64, lanes=4))
    assert called(built) == set()
    assert "fmla\tv" in built.inspect_source("asm")


def called(built: Any) -> set[str]:
    """Functions of the C library that the code mentions."""
    return set(re.findall(r"\b(?:exp|erf|tanh|nearbyint|rint|trunc|round|floor)f?\b", built.inspect_source("asm")))


@pytest.mark.parametrize("function", sorted(TRUE))
def test_candidates_are_built_without_calls_of_the_c_library(function: str, tmp_path: Path) -> None:
    import tvm

    from tuning.engines.measuring import workers
    from tuning.engines.targets import intrinsics

    intrinsics.load("llvm")
    workers.build(tvm.ir.save_json(module(function, 64)), json.dumps(target()), str(tmp_path / "candidate.ll"))
    code = (tmp_path / "candidate.ll").read_text()
    assert f"{function}f" not in code
    assert f"llvm.{function}" not in code
    assert "<16 x float>" in code
