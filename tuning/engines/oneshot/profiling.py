"""How long each function of a built network takes inside of it, by the virtual machine's own calls."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from tuning.engines.wire.compiling import MAIN, Part, Profile

SECONDS = 1.0
LEAST, MOST = 5, 50
"""Inferences that are timed."""
PACKED = "_prepacked"
"""What TVM appends to the name of a function whose weights were packed when the network was built."""
OWN = "vm.builtin."
"""How names of what the virtual machine itself does begin."""

Calls = Mapping[str, Sequence[float]]
"""By name, the seconds of each call in one inference."""


class Timed:
    """A network on this machine's CPU whose virtual machine times each call that it makes."""

    def __init__(self, module: Any, arguments: Sequence[Any], entry: str = MAIN) -> None:
        """`arguments` are tensors, for this function of the network."""
        import tvm
        from tvm import relax

        self._machine = relax.VirtualMachine(module, tvm.cpu())
        self._machine.set_instrument(self._note)  # For good: TVM has no way to take it away.
        self._arguments = arguments
        self._entry = entry
        self._found: dict[str, list[float]] = {}
        self._began = 0.0

    def calls(self) -> Calls:
        """Those of an inference, in the order in which names first occur. Each includes up to 2 µs in which the virtual machine tells of it."""
        self._found = defaultdict(list)
        with _without_collection():
            self._machine[self._entry](*self._arguments)
        return self._found

    def _note(self, _function: Any, name: str, before: bool, *_more: Any) -> int:  # noqa: FBT001  as TVM calls it
        if before:
            self._began = time.perf_counter()
        else:
            self._found[name].append(time.perf_counter() - self._began)
        return 0


def profiled(timed: Timed) -> Profile:
    """What each function takes, as the median of several inferences, without what it takes to time a call.

    That is taken to be the shortest call of the virtual machine's own, which do next to nothing.
    """
    timed.calls()  # Nothing is in the caches yet.
    began = time.monotonic()
    inferences: list[Calls] = []
    while len(inferences) < LEAST or (time.monotonic() - began < SECONDS and len(inferences) < MOST):
        inferences.append(timed.calls())
    names = inferences[0]
    own = [name for name in names if name.startswith(OWN)]
    timing_s = min((min(one[name]) for one in inferences for name in own), default=0.0)

    def inside_s(name: str) -> float:
        return max(0.0, median(sum(one[name]) for one in inferences) - timing_s * len(names[name]))

    parts = [
        Part(name.removesuffix(PACKED), len(calls), inside_s(name) / len(calls))
        for name, calls in names.items()
        if name not in own
    ]
    return Profile(parts, sum(map(inside_s, own)), sum(len(names[name]) for name in own))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Python's garbage collector would count as a call's time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
