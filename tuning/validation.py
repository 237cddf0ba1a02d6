"""Checks what users enter in forms, JSON bodies and commands, and describes what they may enter.

How input is checked: the fields of an options struct by `convert`, any other field by a function that returns its value or
raises `Invalid`. `gather` collects what is wrong, so that one answer names every field at fault. What is valid but not
possible now raises `Conflict`, and what would be too much at once `Busy`. Only the API's query parameters are checked by Ninja, which reports them in the same shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from ipaddress import ip_address
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec
from typing_extensions import ParamSpec, TypedDict

Struct = TypeVar("Struct", bound=msgspec.Struct)
Value = TypeVar("Value")
Given = ParamSpec("Given")
MACHINE_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
NO_MACHINE_NAME = "must be 1 to 63 letters, digits, dots, hyphens and underscores, like lab-2"
LONGEST_NUMBER = 18
"""Digits. Python refuses to convert thousands of them."""


class Invalid(Exception):
    """Bad input: `fields` maps the name of each field at fault to what is wrong with it."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {message}" for name, message in fields.items()))
        self.fields = dict(fields)


class Conflict(Exception):
    """The current state doesn't allow it; the message says why."""

    refused: object = None
    """The act that was refused, for the audit log (`tuning.audit`)."""


class Busy(Exception):
    """Too much of this is going on already; the message says of what. `own`: of the user's own, rather than of everybody's."""

    retry_after_s = 60

    def __init__(self, message: str, *, own: bool) -> None:
        super().__init__(message)
        self.own = own


def wrong_dims(given: Iterable[str], open_dims: Iterable[str]) -> dict[str, str]:
    """What is wrong with the values for a model's open dimensions: those that are missing, and those of none."""
    given, open_dims = set(given), set(open_dims)
    missing = dict.fromkeys(open_dims - given, "The model leaves this dimension open: enter its value.")
    extra = dict.fromkeys(given - open_dims, "The model has no open dimension of this name.")
    return {f"dims.{name}": text for name, text in sorted((missing | extra).items())}


def gather(wrong: dict[str, str], check: Callable[Given, Value], *args: Given.args, **kwargs: Given.kwargs) -> Any:
    """What `check` returns; None if it raises `Invalid`, whose fields are added to `wrong`."""
    try:
        return check(*args, **kwargs)
    except Invalid as invalid:
        wrong.update(invalid.fields)
        return None


def unknown(given: Iterable[Any], known: Sequence[str], kind: str = "field") -> dict[str, str]:
    """An error for each name that isn't known: a misspelled one must not be ignored."""
    return {str(name): f"There is no such {kind}. Known: {', '.join(known)}." for name in given if name not in known}


def natural(text: str) -> int | None:
    """The whole number that the text is; None if it isn't one, or has more digits than fit into a database's numbers."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER else None


def day(text: str) -> date | None:
    """The day in ISO 8601 that the text is; None if it isn't one."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def is_confidential(url: str) -> bool:
    """Whether nobody on the way can read what is sent to the URL: it is HTTPS, or HTTP to this machine itself."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.username or parts.password or not url.isprintable() or " " in url:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(host)))


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def properties_of(struct: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    """The JSON schema of each field, in order."""
    found: dict[str, dict[str, Any]] = schema_of(struct)["properties"]
    return found


@cache
def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The struct's JSON schema."""
    schema: dict[str, Any] = msgspec.json.schema_components((struct,))[1][struct.__name__]
    for name, hint in get_type_hints(struct).items():
        if get_origin(hint) is Literal:
            # msgspec sorts the choices; users see them in the order in which they are declared.
            schema["properties"][name]["enum"] = list(get_args(hint))
    return schema


@cache  # This takes milliseconds.
def _hints(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(struct, include_extras=True)


Type = Literal["integer", "integers", "number", "boolean", "choice", "choices", "text"]


class OptionDict(TypedDict):
    """One option, with all that a form needs. Integers and choices may be given as a list or as text: `0, 3, 5`."""

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
    """The struct's fields as options, in order."""
    return [_option(name, schema) for name, schema in properties_of(struct).items()]


def _option(name: str, schema: Mapping[str, Any]) -> OptionDict:
    value, *null = schema.get("anyOf", [schema])
    bounds = value.get("items", value)
    return {
        "name": name,
        "title": schema.get("title", name),
        "description": schema.get("description", ""),
        "type": _type(value),
        "optional": bool(null),
        "default": schema.get("default"),
        "minimum": bounds.get("minimum", bounds.get("exclusiveMinimum")),
        "maximum": bounds.get("maximum", bounds.get("exclusiveMaximum")),
        "choices": bounds.get("enum"),
    }


def _type(schema: Mapping[str, Any]) -> Type:
    if "enum" in schema.get("items", {}):
        return "choices"
    if schema.get("type") == "string" and "enum" not in schema:
        return "text"
    return _TYPES[schema.get("type", "string")]


_TYPES: dict[str, Type] = {
    "integer": "integer",
    "array": "integers",
    "number": "number",
    "boolean": "boolean",
    "string": "choice",
}


def convert(struct: type[Struct], given: Mapping[str, Any]) -> Struct:
    """The struct made of what was given. An empty string means "not given" where a field may be null, and is no value elsewhere.

    Raises `Invalid` that names every field at fault, unknown ones included.
    """
    properties = properties_of(struct)
    hints = _hints(struct)
    values: dict[str, Any] = {}
    wrong = unknown(given, list(properties), "option")
    for name, schema in properties.items():
        value, *null = schema.get("anyOf", [schema])
        if name not in given or (given[name] == "" and null):
            continue
        try:
            values[name] = msgspec.convert(_split(value, given[name]), hints[name], strict=False)
        except msgspec.ValidationError:
            wrong[name] = f"Must be {_expected(value)}, {_found(given[name])}."
    if wrong:
        raise Invalid(wrong)
    return struct(**values)


def _found(value: Any) -> str:
    return "and can't be empty" if value == "" else f"not {str(value)[:60]!r}"


def _split(schema: Mapping[str, Any], value: Any) -> Any:
    """The items of a list that came as text."""
    if schema.get("type") == "array" and isinstance(value, str):
        return re.split(r"[\s,]+", value.strip().strip(","))
    return value


def _expected(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if schema["type"] == "array" and "enum" in schema["items"]:
        return f"one or more of {', '.join(schema['items']['enum'])}"
    if schema["type"] == "array":
        return f"one or more whole numbers, such as 0, 3, 5, each{_range(schema['items'])}"
    if schema["type"] == "string":
        return "a name of letters, digits and . _ -"
    kinds = {"integer": f"a whole number{_range(schema)}", "number": f"a number{_bounds(schema)}"}
    return kinds.get(schema["type"], "true or false")


def _range(schema: Mapping[str, Any]) -> str:
    least = f" from {schema['minimum']:g}" if "minimum" in schema else ""
    return least + (f" to {schema['maximum']:,}" if "maximum" in schema else "")


def _bounds(schema: Mapping[str, Any]) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    bounds = [f"{word} {schema[key]:,g}" for key, word in words.items() if key in schema]
    return f" {' and '.join(bounds)}" if bounds else ""
