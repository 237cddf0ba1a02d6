"""How far a library of a quantized model is from the model that it was quantized from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tuning.engines.proof import threads
from tuning.engines.proof.outputs import drawn
from tuning.engines.wire.compiling import Accuracy, Prove
from tuning.engines.wire.protocol import NetworkSpec

from . import reference
from .judging import Given, Library

SAMPLES = 8
"""Inferences to compare, each of which takes as long as the float model does in ONNX Runtime."""
Outputs = list[Any]


def of(tuned: Library, float_model: NetworkSpec, question: Prove, like: Given) -> Accuracy:
    """Compares outputs for random inputs of these shapes and types. If that can't be done, the answer says why."""
    drawings = [
        drawn(((name, one.shape, str(one.dtype)) for name, one in like.items()), question.seed + nth)
        for nth in range(1, SAMPLES + 1)
    ]
    try:
        floats = reference.onnxruntime(float_model, threads.cores_of(question.target))
        with reference.in_words():
            wanted = [floats(given)() for given in drawings]
        found = [tuned.on(given).outputs() for given in drawings]
        _check(found[0], wanted[0])
    except reference.Unavailable as why:
        return Accuracy(0, None, None, 0, 0, str(why))
    return compared(found, wanted)


def compared(found: Sequence[Outputs], wanted: Sequence[Outputs]) -> Accuracy:
    """The outputs of some inferences, with those of the float model; their shapes are alike."""
    outputs = [(_joined(found, nth), _joined(wanted, nth)) for nth in range(len(wanted[0]))]
    errors = [_errors(ours, theirs) for ours, theirs in outputs]
    finite = [one for one in errors if one is not None]
    rms, largest = map(max, zip(*finite, strict=True)) if len(finite) == len(errors) else (None, None)
    ours, theirs = outputs[0]
    scores = ours.ndim == 2 and ours.shape[1] > 1
    same = int((ours.argmax(axis=1) == theirs.argmax(axis=1)).sum()) if scores else 0
    return Accuracy(len(found), rms, largest, len(ours) if scores else 0, same)


def _joined(inferences: Sequence[Outputs], nth: int) -> Any:
    """One output of all inferences, as one array."""
    return np.concatenate([np.atleast_1d(np.asarray(outputs[nth], "float64")) for outputs in inferences])


def _errors(ours: Any, theirs: Any) -> tuple[float, float] | None:
    """The root mean square of the differences and the largest one, as in `Accuracy`."""
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return None
    off = ours - theirs
    rms = _relative(np.sqrt(np.mean(off**2)), np.sqrt(np.mean(theirs**2)))
    return rms, _relative(np.abs(off).max(initial=0.0), np.abs(theirs).max(initial=0.0))


def _relative(error: float, size: float) -> float:
    return float(error / size) if size else float(error)


def _check(found: Outputs, wanted: Outputs) -> None:
    """Raises `Unavailable` if they can't be compared."""
    ours, theirs = ([list(one.shape) for one in outputs] for outputs in (found, wanted))
    if ours != theirs:
        raise reference.Unavailable(f"Its outputs have the shapes {theirs}, those of the library {ours}.")
    if integers := [str(one.dtype) for one in found if one.dtype.kind in "iub"]:
        raise reference.Unavailable(f"Outputs of the library are {integers[0]}, which can't be compared with floats.")
