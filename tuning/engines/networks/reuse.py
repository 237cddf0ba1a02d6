"""How many bytes an inference touches between two uses of the same weights: as many as push these out of the caches, or don't.

The steps of a recurrent network read the same weights one after another, and so find them in the caches. The weights of most other
networks are used once: between two inferences' uses is all that a whole inference touches.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod
from statistics import median
from typing import Any, NamedTuple

from tvm import DataType, IRModule
from tvm.ir import GenericConst

from .extraction import FREE_LAYOUTS, calls


class Touched(NamedTuple):
    """Bytes that pass through the caches: weights, each counted once, and what functions return.

    A result's memory is used again for later ones, but a cache that other cores share keeps less of it than it has room for.
    """

    inference: int
    """In a whole inference."""
    functions: dict[str, int]
    """By function, between two uses of its largest weights, these among them: the median of its calls. As in an inference for a call without weights."""


class Call(NamedTuple):
    """What a call touches: the bytes of each of its weights, by what tells these from others, and those of its results."""

    weights: Mapping[Any, int]
    results: int


def touched(mod: IRModule) -> Touched:
    """Of a legalized network."""
    made = calls(mod["main"])
    found = [Call(weights, _bytes_of(call.ty)) for call, weights in zip(made, _weights(mod, made), strict=True)]
    whole = sum({key: size for call in found for key, size in call.weights.items()}.values())
    whole += sum(call.results for call in found)
    of: dict[str, list[int]] = defaultdict(list)
    for call, between in zip(made, between_uses(found), strict=True):
        of[str(call.args[0].name_hint)].append(whole if between is None else between)
    return Touched(whole, {name: int(median(each)) for name, each in of.items()})


def between_uses(calls_: Sequence[Call]) -> list[int | None]:
    """For each call of an inference, the bytes touched since the last use of its largest weights; None for a call without any.

    One inference follows another, so the last use may be that of the inference before.
    """
    count = len(calls_)
    results = list(accumulate((call.results for call in [*calls_, *calls_]), initial=0))
    sizes, last = _Sums(2 * count), dict[Hashable, int]()
    found: list[int | None] = []
    for nth, call in enumerate([*calls_, *calls_]):
        largest = max(call.weights, key=call.weights.__getitem__, default=None)
        since = last.get(largest) if largest is not None else None
        for key, size in call.weights.items():
            if key in last:
                sizes.add(last[key], -size)
            sizes.add(nth, size)
            last[key] = nth
        found.append(None if since is None else sizes.since(since) + results[nth] - results[since])
    return found[count:]


class _Sums:
    """Numbers by position, and sums of the last of them: a Fenwick tree, since large networks have thousands of calls."""

    def __init__(self, length: int) -> None:
        self._tree = [0] * (length + 1)

    def add(self, position: int, number: int) -> None:
        place = len(self._tree) - 1 - position
        while place < len(self._tree):
            self._tree[place] += number
            place += place & -place

    def since(self, position: int) -> int:
        """The sum from this position on."""
        place, total = len(self._tree) - 1 - position, 0
        while place:
            total += self._tree[place]
            place &= place - 1
        return total


def _weights(mod: IRModule, made: Iterable[Any]) -> list[dict[Hashable, int]]:
    """Of each call, the sizes of its constants.

    TVM keeps one tensor for constants of equal content when it builds a library, but where schedules choose the layout, each function has
    its own copy.
    """
    contents: dict[Any, Hashable] = {}
    found = []
    for call in made:
        attributes = mod[call.args[0]].attrs
        free = set(map(int, attributes.get(FREE_LAYOUTS, ()))) if attributes else set()
        own: dict[Hashable, int] = {}
        for nth, constant in enumerate(call.args[1]):
            if isinstance(constant, GenericConst):
                if constant not in contents:
                    contents[constant] = _content(constant)
                key = (contents[constant], str(call.args[0].name_hint) if nth in free else None)
                own[key] = _bytes_of(constant.ty)
        found.append(own)
    return found


def _content(constant: Any) -> Hashable:
    """The same for all that hold the same: folding may have made several of what was one."""
    values = constant.value.numpy()
    return str(values.dtype), values.shape, hashlib.sha256(values.tobytes()).digest()


def _bytes_of(ty: Any) -> int:
    """Of a tensor, or of several."""
    if hasattr(ty, "fields"):
        return sum(map(_bytes_of, ty.fields))
    return prod(map(int, ty.shape)) * int(DataType(ty.dtype).itemsize)
