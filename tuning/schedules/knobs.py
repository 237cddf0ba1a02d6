"""AutoTVM's knobs: the choices of several records side by side, and what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

KINDS = {"sp": "split", "re": "reorder", "an": "annotate", "ot": "choice"}
"""By the short name in records, what a knob decides."""


@dataclass(frozen=True)
class Knob:
    """One knob over several records; a value is empty in a record that hasn't the knob."""

    name: str
    kind: str
    values: list[str]
    shared: str
    """The value that more than half of the records have, if there is one and there are several records."""
    agreeing: int
    """How many records have it."""


def side_by_side(records: Sequence[str]) -> list[Knob]:
    """The knobs of these lines of AutoTVM's log, in the order of the records. Raises `ValueError` if one isn't such a line."""
    given = [chosen(record) for record in records]
    kinds = {name: kind for one in given for name, (kind, _) in one.items()}
    return [_knob(name, kind, [one.get(name, ("", ""))[1] for one in given]) for name, kind in kinds.items()]


def _knob(name: str, kind: str, values: list[str]) -> Knob:
    value, times = Counter(values).most_common(1)[0]
    agrees = value != "" and len(values) > 1 and times * 2 > len(values)
    return Knob(name, kind, values, value if agrees else "", times if agrees else 0)


def chosen(record: str | bytes) -> dict[str, tuple[str, str]]:
    """Kind and value of each knob of a line of the log. Raises `ValueError`."""
    try:
        decoded = msgspec.json.decode(record)
        entities = decoded["config"]["entity"] if "config" in decoded else decoded["i"][5]["e"]
        return {name: (KINDS.get(kind, kind), _text(kind, value)) for name, kind, value in map(_three, entities)}
    except (msgspec.DecodeError, KeyError, IndexError, TypeError) as error:
        raise ValueError("this isn't a record of AutoTVM") from error


def _three(entity: list[Any]) -> tuple[str, str, Any]:
    """AutoTVM 0.1 also wrote the number of a split's parts: the value comes last."""
    return entity[0], entity[1], entity[-1]


def _text(kind: str, value: Any) -> str:
    if kind == "sp" and isinstance(value, list):
        return " × ".join("rest" if part == -1 else str(part) for part in value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
