"""What an uploaded file is, what the networks that it makes are called, and their dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, count, product
from pathlib import Path
from typing import Any, Literal

from tuning.engines.wire.catalog import BUILTIN
from tuning.models import Project
from tuning.validation import Invalid, natural

Format = Literal["onnx", "irmodule", "pt2"]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
LARGEST_DIM = 1_000_000
MOST_BATCHES = 8
"""Values of a dimension at once, each of which makes a network."""


def format_of(path: Path, file_name: str) -> Format:
    """Told by the content: JSON begins with a brace, an archive with PK, a pickle with 0x80. A broken file goes by its name.

    An ONNX model begins with none of these. Archives and pickles are told apart by the process that reads them.
    """
    with path.open("rb") as file:
        beginning = file.read(64)
    if beginning.startswith((b"PK", b"\x80")) or file_name.lower().endswith((".pt2", ".pt", ".pth")):
        return "pt2"
    is_json = beginning.lstrip().startswith(b"{")
    return "irmodule" if is_json or file_name.lower().endswith(".json") else "onnx"


def dims_of_each(given: Mapping[str, Any]) -> list[dict[str, int]]:
    """The values of the dimensions of each network that is to be made."""
    values: dict[str, list[int]] = {}
    wrong = {}
    for name, value in given.items():
        found, trouble = _extents(value)
        values[str(name)] = found
        if trouble:
            wrong[f"dims.{name}"] = trouble
        elif len(found) > 1 and any(len(others) > 1 for other, others in values.items() if other != name):
            wrong[f"dims.{name}"] = "Only one dimension can have several values."
    if wrong:
        raise Invalid(wrong)
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


def _extents(value: Any) -> tuple[list[int], str]:
    """The values of a dimension, and what is wrong with them."""
    texts = [str(one).strip() for one in (value if isinstance(value, list) else str(value).split(","))]
    extents = [None if one in ("True", "False") else natural(one) for one in texts]
    found = [one for one in extents if one is not None and 1 <= one <= LARGEST_DIM]
    if len(found) < len(texts) or not texts:
        bad = next((text for text, one in zip(texts, extents, strict=True) if one not in found), "")
        return [], f"Must be a whole number from 1 to {LARGEST_DIM:,}, not {bad[:60]!r}."
    if len(set(found)) < len(found):
        return [], "Has a value twice."
    return found, "" if len(found) <= MOST_BATCHES else f"At most {MOST_BATCHES} values, not {len(found):,}."


def names_of_each(name: str, file_name: str, values: Sequence[Mapping[str, int]], project: Project) -> list[str]:
    """A name for the network with each of these values: the chosen one, or the file's, with a number if it is taken in the project."""
    first, *others = values
    several = [dim for dim in first if any(other[dim] != first[dim] for other in others)]
    endings = ["".join(f"-{_tame(dim)}{one[dim]}" for dim in several) for one in values]
    if name := name.strip():
        _check_name(name, endings, project)
        return [f"{name}{ending}" for ending in endings]
    stem = _tame(Path(shown(file_name)).stem)[:90].strip("-._+") or "model"
    taken = {*BUILTIN, *project.networks.values_list("name", flat=True)}
    stems = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(
        names for names in ([f"{one}{ending}" for ending in endings] for one in stems) if taken.isdisjoint(names)
    )


def _check_name(name: str, endings: Sequence[str], project: Project) -> None:
    names = [f"{name}{ending}" for ending in endings]
    if not all(map(NAME.fullmatch, names)):
        raise Invalid(
            {"name": "Must be letters, digits and . _ + - only, at most 100, and begin with a letter or digit."}
        )
    if not BUILTIN.keys().isdisjoint(names):
        raise Invalid({"name": "A built-in network has that name."})
    if project.networks.filter(name__in=names).exists():
        raise Invalid({"name": "Another network has that name."})


def _tame(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-._+")


def shown(file_name: str) -> str:
    """The file's name without its folder, as pages show it."""
    return (
        "".join(char for char in file_name.replace("\\", "/").rpartition("/")[2] if char.isprintable())[:255] or "model"
    )
