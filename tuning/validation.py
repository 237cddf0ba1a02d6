"""Options as a person gives them (form, JSON, shell) into the engine's typed structs, and back into what a form shows."""

from __future__ import annotations

from collections.abc import Mapping
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


class OptionDict(TypedDict):
    """One option, with all that a form needs. `type` is integer, number or choice."""

    name: str
    title: str
    description: str
    type: Literal["integer", "number", "choice"]
    optional: bool
    default: int | float | str | None
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
    wrong = {name: f"There is no such option. Known: {', '.join(options)}." for name in given.keys() - options.keys()}
    for name, option in options.items():
        if given.get(name, "") == "":
            continue
        try:
            values[name] = msgspec.convert(given[name], hints[name], strict=False)
        except msgspec.ValidationError:
            wrong[name] = _refusal(option, given[name])
    if wrong:
        raise Invalid(wrong)
    return struct(**values)


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


def _type_name(kind: inspect.Type) -> Literal["integer", "number", "choice"]:
    if isinstance(kind, inspect.IntType):
        return "integer"
    return "number" if isinstance(kind, inspect.FloatType) else "choice"


def _bound(kind: inspect.Type, *names: str) -> float | None:
    return next((bound for name in names if (bound := getattr(kind, name, None)) is not None), None)


def _choices(hint: Any) -> list[str] | None:
    """In the order in which they are written: msgspec sorts them."""
    return list(get_args(hint)) if get_origin(hint) is Literal else None


def _refusal(option: OptionDict, value: Any) -> str:
    if option["choices"]:
        wanted = f"one of {', '.join(option['choices'])}"
    else:
        wanted = "a whole number" if option["type"] == "integer" else "a number"
        if option["minimum"] is not None:
            wanted += f" from {option['minimum']:g}" if option["type"] == "integer" else f" above {option['minimum']:g}"
        if option["maximum"] is not None:
            wanted += (
                f" to {option['maximum']:,}" if option["type"] == "integer" else f" and at most {option['maximum']:,g}"
            )
    return f"Must be {wanted}, not {str(value)[:60]!r}."
