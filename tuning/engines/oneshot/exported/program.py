"""The JSON of a program: what PyTorch would evaluate is checked, and what it doesn't need for a conversion is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.pytorch import OpenDim

Json = dict[str, Any]
OPERATOR = re.compile(
    r"torch\.ops\.(aten\.(?!from_file\b)\w+(\.\w+)?"
    r"|higher_order\.(cond|wrap_with_set_grad_enabled|wrap_with_autocast|while_loop|scan))"
    r"|_operator\.(eq|ne|le|ge|lt|gt|neg|pos|mul|add|sub|floordiv|mod|pow|truediv|and_|or_|lshift|rshift|getitem)"
    r"|math\.trunc|torch\.sym_(not|int|float|ite|max|min|sqrt)"
)
"""Operators of PyTorch itself, and arithmetic on shapes. PyTorch looks names up in its modules, and calls what it finds."""
FUNCTIONS = (
    "Symbol Integer Float Rational Add Mul Pow Mod PythonMod Max Min FloorDiv CeilDiv CleanDiv IntTrueDiv FloatTrueDiv ModularIndexing"
    " Where PowByNatural FloatPow ToFloat CeilToInt FloorToInt TruncToInt RoundToInt TruncToFloat RoundDecimal Identity LShift RShift Eq"
    " Equality Ne Unequality Ge GreaterThan Gt StrictGreaterThan Le LessThan Lt StrictLessThan And Or Not true false"
    " BooleanTrue BooleanFalse integer positive nonnegative nonzero True False oo int_oo"
)
"""Of expressions about shapes, which PyTorch has SymPy evaluate as Python."""
SYMBOL = r"[suz][a-z]{0,4}\d+"
EXPRESSION = re.compile(rf"(?:[\s()+*/%,<>=&|~'-]|\d+(?:\.\d+)?|\b(?:{'|'.join(FUNCTIONS.split())}|{SYMBOL})\b)+")
LONGEST_EXPRESSION = 20_000
ONE_SYMBOL = re.compile(rf"(?:Symbol\(')?({SYMBOL})(?:'[^()]*\))?")
NAMED = ("name", "as_name")
NAME = re.compile(r"[A-Za-z_]\w*|")
"""Of a value or a graph. PyTorch writes Python with these names, and runs it."""
ATTRIBUTES = ("parameter_name", "buffer_name", "tensor_constant_name", "user_input_name")
BY_NAME = ("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values", "as_string_to_argument")
"""Fields that have others by names, which users chose."""
CPU = {"type": "cpu", "index": None}
LEAF: Json = {"type": None, "context": None, "children_spec": []}


class Range(msgspec.Struct):
    min_val: int | None = None
    max_val: int | None = None


def parsed(data: bytes, name: str) -> Json:
    """Raises `Refused`."""
    try:
        found = json.loads(data)  # Not msgspec's parser: PyTorch writes infinities, which are no JSON.
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name} in the archive is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Refused(f"{name} in the archive isn't as PyTorch writes it.")
    return found


def cleaned(program: Json) -> Json:
    """The program for PyTorch to read. Raises `Refused`, or `KeyError` and its like if it isn't as PyTorch writes it.

    Inputs and outputs are flat, so no class of a library is looked up for them, and all tensors are on the CPU.
    """
    module = program["graph_module"]
    _clean(module["graph"])
    specs = module["signature"]
    _clean(specs)
    inputs = [name for one in specs["input_specs"] if (name := _input(one))]
    outputs = sum("user_output" in one for one in specs["output_specs"])
    return {
        "graph_module": {
            "graph": module["graph"],
            "signature": specs,
            "module_call_graph": [{"fqn": "", "signature": _calling(inputs, outputs)}],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": program["opset_version"],
        "range_constraints": program["range_constraints"],
        "schema_version": program["schema_version"],
        "verifiers": program.get("verifiers", []),
        "torch_version": saved_by(program),
        "guards_code": [],
    }


def saved_by(program: Json) -> str:
    return str(program.get("torch_version", "an unknown version"))[:60]


def open_dims(program: Json) -> dict[str, OpenDim]:
    """The open dimensions by name, in the order of inputs. Raises `Refused` if one is computed from others."""
    ranges = msgspec.convert(program["range_constraints"], dict[str, Range])
    found: dict[str, OpenDim] = {}
    computed = []
    for name, expression in _open(program["graph_module"]):
        match = ONE_SYMBOL.fullmatch(expression)
        if match is None:
            computed.append(f"{name} ({expression[:100]})")
        elif match[1] not in {dim.symbol for dim in found.values()}:
            limits = ranges.get(match[1], Range())
            found[name] = OpenDim(match[1], limits.min_val, limits.max_val)
    if computed:
        raise Refused(
            f"Dimensions of the program's inputs are computed from others: {', '.join(computed[:5])}. Export it with fixed shapes."
        )
    return found


def _open(module: Json) -> Iterator[tuple[str, str]]:
    """`INPUT.AXIS` and expression of each dimension that isn't a number."""
    tensors = module["graph"]["tensor_values"]
    for spec in module["signature"]["input_specs"]:
        name = spec.get("user_input", {}).get("arg", {}).get("as_tensor", {}).get("name")
        for axis, size in enumerate(tensors[name]["sizes"] if name else []):
            if "as_expr" in size:
                yield f"{name}.{axis}", str(size["as_expr"]["expr_str"])


def _input(spec: Json) -> str | None:
    """The name of what a user passes; None for weights."""
    constant, argument = spec.get("constant_input", {}), spec.get("user_input", {}).get("arg", {})
    name = constant.get("name") or next((one["name"] for one in argument.values() if isinstance(one, dict)), None)
    return None if name is None else str(name)


def _calling(inputs: list[str], outputs: int) -> Json:
    return {
        "inputs": [],
        "outputs": [],
        "in_spec": _spec(
            _tuple(_tuple(*[LEAF] * len(inputs)), {"type": "builtins.dict", "context": "[]", "children_spec": []})
        ),
        "out_spec": _spec(_tuple(*[LEAF] * outputs)),
        "forward_arg_names": inputs,
    }


def _tuple(*parts: Json) -> Json:
    return {"type": "builtins.tuple", "context": "null", "children_spec": list(parts)}


def _spec(tree: Json) -> str:
    return json.dumps([1, tree])


def _clean(part: Any) -> None:
    """Check whatever PyTorch would look up or evaluate, wherever it is: graphs are nested. Raises `Refused`."""
    if isinstance(part, list):
        for one in part:
            _clean(one)
    elif isinstance(part, dict):
        if "metadata" in part:
            part["metadata"] = {}
        if part.keys() == CPU.keys():
            part.update(CPU)
        for field, value in part.items():
            _check(field, value)
            _clean(list(value.values()) if field in BY_NAME else value)


def _check(field: str, value: Any) -> None:
    if field in ("target", "as_operator"):
        _check_operator(value)
    elif field == "expr_str":
        check_expression(value)
    elif field in NAMED and value is not None:
        _check_name(value, is_fine=isinstance(value, str) and NAME.fullmatch(value) is not None)
    elif field in ATTRIBUTES:
        check_attribute(value)
    elif field == "as_custom_obj" or (field == "custom_obj_values" and value):
        raise Refused("The program has objects of classes of your own, which are pickled. No pickle is ever read here.")


def check_attribute(name: object) -> None:
    """Raises `Refused` unless it can be quoted in Python."""
    _check_name(name, is_fine=isinstance(name, str) and name.isprintable() and not set(name) & set("\"'\\"))


def _check_name(name: object, *, is_fine: bool) -> None:
    if not is_fine:
        raise Refused(f"The program has a name that PyTorch wouldn't write: {str(name)[:200]!r}.")


def _check_operator(name: object) -> None:
    if not isinstance(name, str) or not OPERATOR.fullmatch(name):
        raise Refused(f"The program calls {str(name)[:200]}, which is no operator of PyTorch's own for inference.")


def check_expression(text: object) -> None:
    """Raises `Refused` unless it is arithmetic on numbers and symbols."""
    if not isinstance(text, str) or len(text) > LONGEST_EXPRESSION or not EXPRESSION.fullmatch(text):
        raise Refused(f"The program has a shape that is no arithmetic: {str(text)[:200]}.")
