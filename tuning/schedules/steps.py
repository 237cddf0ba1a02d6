"""auto_scheduler's transform steps: each in words, and the loops that all of them give.

The order of a step's fields is that of TVM's `src/auto_scheduler/transform_step.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec

from .loops import BadStep, Loop, Stage, State

ANNOTATIONS = (
    "for",
    "unroll",
    "vectorize",
    "parallel",
    "vthread",
    "blockIdx.x",
    "threadIdx.x",
    "blockIdx.y",
    "threadIdx.y",
    "blockIdx.z",
    "threadIdx.z",
    "tensorize",
)
INDENT = "  "


@dataclass(frozen=True)
class Explained:
    """A record's steps in words, and the loops after them, an indented line each, without plain loops of extent 1.

    `inlined` has the names of stages without loops of their own. `trouble` says why the steps end early.
    """

    steps: list[str]
    loops: list[str]
    inlined: list[str]
    trouble: str | None = None

    @property
    def text(self) -> str:
        """The loops as one text."""
        return "\n".join(self.loops)


def explain(record: str) -> Explained:
    """Explain a line of auto_scheduler's log. Raises `ValueError` if it isn't one."""
    steps = _steps_of(record)
    state, told = State(steps), []
    trouble = None
    for number, step in enumerate(steps):
        try:
            told.append(_apply(state, step))
        except (BadStep, TypeError, ValueError, IndexError) as error:
            trouble = f"Step {number + 1}, {msgspec.json.encode(step).decode()[:200]}, can't be explained: {error}."
            break
    return Explained(told, list(_nest(state)), [one.name for one in state.stages if one.inlined], trouble)


def _steps_of(record: str) -> list[Any]:
    try:
        steps = msgspec.json.decode(record)["i"][1][1]
    except (msgspec.DecodeError, KeyError, IndexError, TypeError) as error:
        raise ValueError("this isn't a record of auto_scheduler") from error
    if not isinstance(steps, list):
        raise ValueError("this isn't a record of auto_scheduler")  # noqa: TRY004 - the record is wrong, not the call
    return steps


def _apply(state: State, step: list[Any]) -> str:
    kind, *fields = step
    if kind not in STEPS:
        raise BadStep(f"the kind {kind} is unknown")
    return STEPS[kind](state, *fields)


def _annotate(state: State, stage: int, place: int, kind: int) -> str:
    where, loop = _named(state, stage, place)
    annotation = ANNOTATIONS[kind] if 0 <= kind < len(ANNOTATIONS) else f"annotation {kind}"
    loop.annotation = annotation
    if annotation == "parallel":
        return f"Run {where} in parallel"
    if annotation in ("unroll", "vectorize", "tensorize"):
        return f"{annotation.capitalize()} {where}"
    return f"Bind {where} to {annotation}"


def _fuse(state: State, stage: int, places: list[int]) -> str:
    names = [_named(state, stage, place)[0] for place in places]
    fused = state.fuse(stage, places[0], places[-1])
    size = f", extent {fused.extent}" if fused.extent is not None else ""
    return f"Fuse {len(names)} loops of {state.stage(stage).name} into {fused.name}{size}"


def _pragma(state: State, stage: int, place: int, pragma: str) -> str:
    where, loop = _named(state, stage, place)
    name, _, value = pragma.partition("$")
    words = f"unroll up to {value} steps automatically" if name == "auto_unroll_max_step" else pragma
    loop.pragmas.append(words)
    return f"Mark {where}: {words}"


def _reorder(state: State, stage: int, order: list[int]) -> str:
    loops = state.reorder(stage, order)
    return f"Reorder {state.stage(stage).name} to {', '.join(loop.name for loop in loops)}"


def _split(state: State, stage: int, place: int, *more: Any) -> str:
    extent, lengths, inner = more
    where, loop = _named(state, stage, place)
    # Of a stage computed inside of another one, the recorded extent is that of the sketch, not of this candidate.
    loop.extent = None if state.stage(stage).at else extent or None
    size = f" of extent {loop.extent}" if loop.extent else ""
    return f"Split {where}{size} into {_factors(state.split(stage, place, lengths, inner=bool(inner)))}"


def _follow_split(state: State, stage: int, place: int, source: int, parts: int) -> str:
    lengths = _lengths_of(state, source)
    last = prod(lengths[parts - 1 :])
    where, _ = _named(state, stage, place)
    split = state.split(stage, place, [*lengths[: parts - 1], last], inner=True)
    return f"Split {where} as step {source + 1} does, into {_factors(split)}"


def _follow_fused_split(state: State, stage: int, place: int, *more: Any) -> str:
    sources, level, inner = more
    length = prod(_lengths_of(state, source)[level] for source in sources)
    where, _ = _named(state, stage, place)
    split = state.split(stage, place, [length], inner=bool(inner))
    told = ", ".join(str(source + 1) for source in sources)
    return f"Split {where} as steps {told} do at level {level + 1}, into {_factors(split)}"


def _compute_at(state: State, stage: int, target: int, place: int) -> str:
    where, loop = _named(state, target, place)
    moved = state.stage(stage)
    moved.at = loop
    moved.forget_extents()
    return f"Compute {moved.name} at {where}"


def _inline(state: State, stage: int) -> str:
    inlined = state.stage(stage)
    inlined.inlined, inlined.at = True, None
    return f"Inline {inlined.name}"


def _compute_root(state: State, stage: int) -> str:
    moved = state.stage(stage)
    moved.at, moved.inlined = None, False
    moved.forget_extents()
    return f"Compute {moved.name} at the root"


def _cache_read(state: State, stage: int, scope: str, readers: list[int]) -> str:
    names = ", ".join(state.stage(reader).name for reader in readers)
    source = state.stage(stage).name
    cache = state.insert(stage + 1, f"{source}.{scope}")
    return f"Read {source} through a cache in {scope} memory, {cache.name}, for {names}"


def _cache_write(state: State, stage: int, scope: str) -> str:
    target = state.stage(stage)
    cache = state.insert(stage, f"{target.name}.{scope}")
    return f"Write {target.name} through a cache in {scope} memory, {cache.name}"


def _rfactor(state: State, stage: int, place: int, factor: int) -> str:
    where, _ = _named(state, stage, place)
    target = state.stage(stage)
    factored = state.insert(stage, f"{target.name}.rf")
    target.loops, target.begun = [], 0  # Both have new loops, which the record doesn't tell.
    return f"Factor the reduction over {where} out into {factored.name}, as its loop {factor}"


STEPS: dict[str, Callable[..., str]] = {
    "AN": _annotate,
    "FU": _fuse,
    "PR": _pragma,
    "RE": _reorder,
    "SP": _split,
    "FSP": _follow_split,
    "FFSP": _follow_fused_split,
    "CA": _compute_at,
    "CI": _inline,
    "CR": _compute_root,
    "CHR": _cache_read,
    "CHW": _cache_write,
    "RF": _rfactor,
}


def _lengths_of(state: State, number: int) -> list[int]:
    source = state.steps[number]
    if source[0] != "SP":
        raise BadStep(f"step {number + 1} isn't a split")
    return list(source[4])


def _named(state: State, stage: int, place: int) -> tuple[str, Loop]:
    owner = state.stage(stage)
    loop = owner.loop(place)
    return f"{loop.name} of {owner.name}", loop


def _factors(loops: list[Loop]) -> str:
    return " × ".join("?" if loop.extent is None else str(loop.extent) for loop in loops)


def _nest(state: State) -> Iterator[str]:
    for stage in state.stages:
        if stage.at is None and not stage.inlined and _is_told(state, stage):
            yield from _lines(state, stage, 0)


def _is_told(state: State, stage: Stage) -> bool:
    return bool(stage.loops) or "." in stage.name or any(other.at in stage.loops for other in state.stages if other.at)


def _lines(state: State, stage: Stage, depth: int) -> Iterator[str]:
    yield f"{INDENT * depth}{stage.name}"
    for loop in stage.loops:
        inside = [other for other in state.stages if other.at is loop and not other.inlined]
        if not (loop.is_trivial and not inside):
            depth += 1
            yield f"{INDENT * depth}{_line(loop)}"
        for other in inside:
            yield from _lines(state, other, depth + 1)


def _line(loop: Loop) -> str:
    size = f" ({loop.extent})" if loop.extent is not None else ""
    pragmas = f"  # {', '.join(loop.pragmas)}" if loop.pragmas else ""
    return f"{loop.annotation} {loop.name}{size}{pragmas}"
