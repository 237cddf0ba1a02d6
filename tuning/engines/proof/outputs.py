"""Whether two libraries give the same outputs for the same random inputs."""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 5e-2, "bfloat16": 1e-1}
"""The largest difference, relative to the output's largest absolute value, that rounding explains; integers must be equal.

Schedules add in different orders. A sum of n products is then off by about √n units in the last place, where n is in the thousands in
convolutions, and layers accumulate. That makes 1e-5 for float32 (1e-6 was observed in ResNet-18), and 1e-2 for float16, which adds in
float16 too. A schedule that computes something else is off by as much as the output itself.
"""

STEPS = 2
"""By so many steps of 8 bits outputs may differ, if one library computes quantized operators in integers and the other one in floats.

Sums of integers are exact, those of floats aren't, so a value that lies between two steps may be rounded to either, and what is computed of it
differs, too. Such values are few: one in thousands.
"""
LEAST_STEPS = 127
"""So many steps the largest value has, unless more is known of the output."""


class Verdict(NamedTuple):
    """How far an output is from what it should be. The errors are None if one is finite where the other isn't."""

    right: bool
    absolute: Optional[float]
    relative: Optional[float]
    """The largest difference, divided by the largest absolute value that there should be."""
    dtype: str
    tolerance: float
    """The largest `relative` that is right."""


def compared(
    tuned: List[Any],
    untuned: List[Any],
    computed_in: Optional[str] = None,
    steps: Optional[List[Optional[float]]] = None,
) -> Verdict:
    """The verdict on the output that differs most for its type. Both lists are numpy arrays, in the same order.

    `computed_in` is the type in which the tuned library rounds, where its float32 outputs don't tell. `steps` is given if it computes
    quantized operators in integers: how large a step of each output is, as far as it is known.
    """
    if len(tuned) != len(untuned):
        raise ValueError(f"{len(tuned)} outputs can't be compared with {len(untuned)}")
    known = [None] * len(untuned) if steps is None else steps
    found = zip(tuned, untuned, known)
    return max((_compared(one, other, computed_in, steps is not None, step) for one, other, step in found), key=excess)


def excess(found: Verdict) -> Tuple[bool, float]:
    """By which the worst of several verdicts is found."""
    return not found.right, float("inf") if found.relative is None else found.relative / (found.tolerance or 1.0)


def _tolerance(dtype: str, in_integers: bool, step: Optional[float], largest: float) -> float:  # noqa: FBT001
    """Relative to the largest value. Integers that aren't quantized, such as indices, must be equal all the same."""
    if not in_integers or not ("float" in dtype or dtype in ("int8", "uint8")):
        return TOLERANCES.get(dtype, 0.0)
    quantized = STEPS * step * (1 + 1e-6) / largest if step and largest else 0.0
    return max(TOLERANCES.get(dtype, 0.0), STEPS / LEAST_STEPS, quantized)


def _compared(
    tuned: Any,
    untuned: Any,
    computed_in: Optional[str],
    in_integers: bool,  # noqa: FBT001
    step: Optional[float],
) -> Verdict:
    import numpy as np

    dtype = str(untuned.dtype)
    if computed_in is not None and dtype == "float32":
        dtype = computed_in
    one, other = (np.asarray(array, dtype="float64") for array in (tuned, untuned))
    finite = np.isfinite(other)
    largest = float(np.abs(other[finite]).max(initial=0.0))
    tolerance = _tolerance(dtype, in_integers, step, largest)
    alike = one.shape == other.shape and np.array_equal(one[~finite], other[~finite], equal_nan=True)
    if not alike or not np.isfinite(one[finite]).all():
        return Verdict(right=False, absolute=None, relative=None, dtype=dtype, tolerance=tolerance)
    error = float(np.abs(one[finite] - other[finite]).max(initial=0.0))
    relative = error / largest if largest else error
    return Verdict(relative <= tolerance, error, relative, dtype, tolerance)


def drawn(inputs: Iterable[Tuple[str, Sequence[int], str]], seed: int) -> Dict[str, Any]:
    """An array for each input, which is a name, a shape and a dtype.

    Floats are normally distributed; integers are 0 or 1, since they may be indices or counts.
    """
    import numpy as np

    random = np.random.default_rng(seed)

    def values(shape: Sequence[int], dtype: str) -> Any:
        if "float" in dtype:
            return random.standard_normal(shape, dtype="float32").astype(_numpy_type(dtype))
        return random.integers(0, 2, shape).astype(dtype)

    return {name: values(shape, dtype) for name, shape, dtype in inputs}


def _numpy_type(dtype: str) -> Any:
    if dtype != "bfloat16":
        return dtype
    import ml_dtypes

    return ml_dtypes.bfloat16
