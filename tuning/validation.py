"""Options as a person gives them (form, JSON, shell) into the engine's typed structs, and back into what a form shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect
from typing_extensions import TypedDict

Struct = TypeVar("Struct", bound=msgspec.Struct)


class Invalid(Exception):
    """Bad input: `fields` maps the name of each field at fault to what is wrong with it."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {message}" for name, message in fields.items()))
        self.fields = dict(fields)


class Conflict(Exception):
    """The present state doesn't allow it; the message says why."""


def unknown(given: Iterable[Any], known: Sequence[str], kind: str = "field") -> dict[str, str]:
    """By name, what is wrong with those that aren't known: one that is misspelt is an error rather than ignored."""
    return {str(name): f"There is no such {kind}. Known: {', '.join(known)}." for name in given if name not in known}


Type = Literal["integer", "integers", "number", "boolean", "choice"]


class OptionDict(TypedDict):
    """One option, with all that a form needs. Integers may be given as a list or as text: `0, 3, 5`."""

    name: str
    title: str
    description: str
    type: Type
    optional: bool
    default: int | float | str | bool | None
    minimum: float | None
    maximum: float | None
    choices: list[str] | None


def options_of(struct: type[msgspec.Struct]) -> list[OptionDict]:
    """The struct's fields in order, read from their annotations."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return [_option(struct, field) for field in info.fields]


def convert(struct: type[Struct], given: Mapping[str, Any]) -> Struct:
    """The struct made of what was given; an empty string means "not given".

    Raises `Invalid` that names every field at fault, unknown ones included.
    """
    options = {option["name"]: option for option in options_of(struct)}
    hints = get_type_hints(struct, include_extras=True)
    values: dict[str, Any] = {}
    wrong = unknown(given, list(options), "option")
    for name, option in options.items():
        if given.get(name, "") == "":
            continue
        try:
            values[name] = msgspec.convert(_listed(option, given[name]), hints[name], strict=False)
        except msgspec.ValidationError:
            wrong[name] = _refusal(option, given[name])
    if wrong:
        raise Invalid(wrong)
    return struct(**values)


def _listed(option: OptionDict, value: Any) -> Any:
    """Integers that came as text, one by one."""
    if option["type"] == "integers" and isinstance(value, str):
        return re.split(r"[\s,]+", value.strip().strip(","))
    return value


def _option(struct: type[msgspec.Struct], field: inspect.Field) -> OptionDict:
    kind: inspect.Type = field.type
    words: dict[str, Any] = {}
    if isinstance(kind, inspect.Metadata):
        words, kind = kind.extra_json_schema or {}, kind.type
    optional = isinstance(kind, inspect.UnionType)
    if isinstance(kind, inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return {
        "name": field.name,
        "title": words.get("title", field.name),
        "description": words.get("description", ""),
        "type": _type_name(kind),
        "optional": optional,
        "default": None if field.default is msgspec.NODEFAULT else field.default,
        "minimum": _bound(kind, "ge", "gt"),
        "maximum": _bound(kind, "le", "lt"),
        "choices": _choices(get_type_hints(struct)[field.name]),
    }


def _type_name(kind: inspect.Type) -> Type:
    names: dict[type[inspect.Type], Type] = {
        inspect.IntType: "integer",
        inspect.FloatType: "number",
        inspect.BoolType: "boolean",
        inspect.ListType: "integers",
    }
    return names.get(type(kind), "choice")


def _bound(kind: inspect.Type, *names: str) -> float | None:
    """Of a list, that of its items."""
    if isinstance(kind, inspect.ListType):
        kind = kind.item_type
    if isinstance(kind, inspect.Metadata):
        kind = kind.type
    return next((bound for name in names if (bound := getattr(kind, name, None)) is not None), None)


def _choices(hint: Any) -> list[str] | None:
    """In the order in which they are written: msgspec sorts them."""
    return list(get_args(hint)) if get_origin(hint) is Literal else None


def _refusal(option: OptionDict, value: Any) -> str:
    if option["choices"]:
        wanted = f"one of {', '.join(option['choices'])}"
    else:
        wanted = _WANTED[option["type"]] + _within(option)
    return f"Must be {wanted}, not {str(value)[:60]!r}."


def _within(option: OptionDict) -> str:
    whole, least, most = option["type"].startswith("integer"), option["minimum"], option["maximum"]
    above = "" if least is None else f" from {least:g}" if whole else f" above {least:g}"
    return above + ("" if most is None else f" to {most:,}" if whole else f" and at most {most:,g}")


_WANTED: dict[Type, str] = {
    "integer": "a whole number",
    "integers": "one or more whole numbers, as 0, 3, 5, each",
    "number": "a number",
    "boolean": "true or false",
}
