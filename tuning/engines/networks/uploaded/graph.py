"""Checks the JSON of a saved IRModule before TVM reads it.

TVM makes an object of any type that it knows, libraries of native code among them. So only types are let through that an inference network
is made of.
"""

from __future__ import annotations

from tuning.engines import saved as files
from tuning.engines.saved import SEQUENCES, VALUES, Saved
from tuning.engines.wire.errors import Refused

from .checks import listed

_OBJECTS = {
    "ir": "Call DictAttrs FloatImm GenericConst GlobalVar IRModule IntImm PrimType SequentialSpan Source SourceMap SourceName"
    " Span StringImm StringType Tuple TupleGetItem TupleType Type Var",
    "prim": "Add Sub Mul Div Mod FloorDiv FloorMod Min Max Cast Select EQ NE LT LE GT GE And Or Not",
    "relax": "AnyType FuncType ShapeType TensorType",
    "relax.expr": "BindingBlock DataflowBlock DataflowVar Function If MatchCast SeqExpr ShapeExpr VarBinding",
}
OBJECTS = frozenset(f"{group}.{name}" for group, names in _OBJECTS.items() for name in names.split())
OPERATOR_ATTRIBUTES = "relax.attrs."
NATIVE = {"tirx.PrimFunc": "TensorIR", "relax.expr.ExternFunc": "external functions", "ffi.Module": "compiled code"}
"""What a user may have saved without meaning to."""


def check(saved: Saved) -> None:
    """Raises `Refused` unless TVM can read the nodes without harm."""
    if unknown := {node.type for node in saved.nodes if not _is_allowed(node.type)}:
        ours = [words for kind, words in NATIVE.items() if kind in unknown]
        hint = f" It contains {' and '.join(ours)}: save the model before it is legalized or compiled." if ours else ""
        raise Refused(
            f"The module has parts that no network needs and that aren't read here: {listed(unknown, 12)}.{hint}"
        )
    files.check_references(saved)


def _is_allowed(kind: str) -> bool:
    return (
        kind in OBJECTS or kind in VALUES or kind in SEQUENCES or kind == "None" or kind.startswith(OPERATOR_ATTRIBUTES)
    )
