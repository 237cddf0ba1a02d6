"""The operators that uploaded models may have."""

from __future__ import annotations

from tuning.engines.wire.inspecting import OnnxOperator, Operators

from .uploaded import modules, onnx_files, recurrent


def known() -> Operators:
    """As the installed TVM and `uploaded.recurrent` tell."""
    names = sorted(onnx_files.known_operators(), key=str.lower)
    return Operators(
        onnx=[OnnxOperator(name, recurrent.LIMITS.get(name)) for name in names],
        relax=sorted(name.removeprefix("relax.") for name in modules.tunable_operators()),
    )
