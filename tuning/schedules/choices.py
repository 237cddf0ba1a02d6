"""What a record's search decided, as named choices that can be compared over many records. No TVM here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Union

import msgspec

from .knobs import chosen

Value = Union[int, str]
FOR = re.compile(r"(\s*)for (.+?) in ")
BLOCK = re.compile(r'(\s*)with T\.s?block\("([^"]+)"\)')


class Choice(NamedTuple):
    """`of` is what was decided, `part` which of its numbers, if it has several; together they name the choice."""

    of: str
    part: str
    value: Value


class Choices(NamedTuple):
    """The choices of one record. Records of the same `space` have the same ones."""

    space: str
    choices: list[Choice]


def choices_of(engine: str, record: str | bytes, loops: Mapping[str, Sequence[str]]) -> Choices:
    """The choices of a line of the engine's log. Raises `ValueError`.

    `loops` names the loops of each block of the unscheduled function (`loops_of`), which MetaSchedule's records only count.
    """
    try:
        if engine == "meta_schedule":
            return _traced(msgspec.json.decode(record), loops)
        return _knobs(record) if engine == "autotvm" else _steps(msgspec.json.decode(record)["i"][1][1])
    except (msgspec.DecodeError, LookupError, TypeError) as error:
        raise ValueError("this isn't a record of the engine") from error


def loops_of(tensorir: str) -> dict[str, list[str]]:
    """The names of the loops around each block of a TVMScript, from the outermost."""
    found: dict[str, list[str]] = {}
    around: list[tuple[int, list[str]]] = []
    for line in tensorir.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip():
            around = [one for one in around if one[0] < indent]
        if loop := FOR.match(line):
            around.append((indent, [name.strip() for name in loop[2].split(",")]))
        elif block := BLOCK.match(line):
            found[block[2]] = [name for _, names in around for name in names]
    return found


class _Trace:
    """Follows a trace's instructions, to know what its variables stand for."""

    def __init__(self, loops: Mapping[str, Sequence[str]]) -> None:
        self._loops = loops
        self._block: dict[str, str] = {}
        self._loop: dict[str, str] = {}
        self._own: set[str] = set()
        self._used_as: dict[str, tuple[str, str]] = {}

    def see(self, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], outputs: Sequence[str]) -> None:
        """Learn what the outputs are, and what a value is used for."""
        if kind in ("GetSBlock", "GetBlock"):
            self._block[outputs[0]] = attrs[0]
        elif kind == "GetLoops":
            block = self._block.get(inputs[0], "")
            names = self._loops.get(block, ())
            known = len(names) == len(outputs)
            for place, output in enumerate(outputs):
                self._own |= {output} if known else set()
                self._loop[output] = f"{names[place] if known else f'loop {place + 1}'} of {block}".removesuffix(" of ")
        elif kind == "Annotate" and isinstance(inputs[1], str):
            block = self._block.get(inputs[0]) or self._loop.get(inputs[0], "")
            what = f"{str(attrs[0]).removeprefix('meta_schedule.')} of {block}".removesuffix(" of ")
            self._used_as[inputs[1]] = what, ""
        elif kind == "Split":
            self._used_as |= {factor: (of, part) for of, part, factor in self._split(inputs) if isinstance(factor, str)}

    def choices(self, nth: int, instruction: Sequence[Any], decision: Any) -> Iterator[Choice]:
        """What the `nth` decision of the trace means."""
        kind, inputs, attrs, outputs = instruction
        if isinstance(decision, list):
            name = f"tiling of {self._loop.get(inputs[0], f'loop {nth}')}"
            yield from (Choice(name, *part) for part in _factors(decision))
        elif kind == "SampleCategorical":
            yield Choice(*self._used_as.get(outputs[0], (f"choice {nth}", "")), attrs[0][int(decision)])
        else:
            name = f"place of {self._block.get(inputs[0], f'block {nth}')}" if inputs else f"choice {nth}"
            places = {-1: "own loops", -2: "inlined"}
            yield Choice(name, "", places.get(decision, f"loop {decision}"))

    def constants(self, kind: str, inputs: Sequence[Any]) -> Iterator[Choice]:
        """Factors that a rule has chosen for all schedules of a sketch; other sketches of the same instructions may have others."""
        if kind == "Split":
            yield from (Choice(*one) for one in self._split(inputs) if isinstance(one[2], int))

    def _split(self, inputs: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
        """The factors of a loop of the function: the loop, which factor, and the factor as the trace has it."""
        loop, *factors = inputs
        if loop in self._own:
            for place, factor in enumerate(factors, 1):
                yield f"tiling of {self._loop[loop]}", _part(place, len(factors)), factor


def _factors(decision: Sequence[Any]) -> Iterator[tuple[str, int]]:
    """From the outermost one. Of two factors one tells both, since their product is the loop's extent."""
    for place, factor in enumerate(decision, 1):
        if len(decision) != 2 or place == len(decision):
            yield _part(place, len(decision)), int(factor)


def _part(place: int, count: int) -> str:
    words = {1: ", outermost", count: ", innermost"}
    return f"factor {place} of {count}{words.get(place, '')}"


def _traced(record: Any, loops: Mapping[str, Sequence[str]]) -> Choices:
    instructions, decisions = record[1][0]
    if not instructions:  # This stands in for a lost record.
        raise LookupError("the trace is empty")
    trace = _Trace(loops)
    for instruction in instructions:
        trace.see(*instruction)
    kinds = [instruction[0] for instruction in instructions]
    search = kinds[: kinds.index("EnterPostproc")] if "EnterPostproc" in kinds else kinds
    found = [
        choice
        for nth, (index, decision) in enumerate(decisions, 1)
        if index < len(search)
        for choice in trace.choices(nth, instructions[index], decision)
    ]
    constants = (one for kind, inputs, *_ in instructions[: len(search)] for one in trace.constants(kind, inputs))
    return Choices(" ".join(search), [*found, *constants])


def _knobs(record: str | bytes) -> Choices:
    found = []
    for name, (kind, text) in chosen(record).items():
        parts = text.split(" × ") if kind == "split" else [text]
        for place, part in enumerate(parts, 1):
            label = f"factor {place} of {len(parts)}" if len(parts) > 1 else ""
            found.append(Choice(name, label, int(part) if part.isdecimal() else part))
    return Choices(" ".join(f"{one.of} {one.part}" for one in found), found)


def _steps(steps: Sequence[Sequence[Any]]) -> Choices:
    """auto_scheduler's splits and unrolling; what its other steps do makes the space."""
    found, space = [], []
    for number, (kind, *fields) in enumerate(steps, 1):
        if kind == "SP":
            stage, place, _extent, lengths, _inner = fields
            space.append(f"SP {stage} {place} {len(lengths)}")
            name = f"step {number}: split of S{stage}"
            found += [
                Choice(name, f"factor {nth + 1} of {len(lengths) + 1}", int(length))
                for nth, length in enumerate(lengths, 1)
            ]
        elif kind == "PR":
            pragma, _, value = str(fields[2]).partition("$")
            space.append(f"PR {fields[0]} {pragma}")
            found.append(Choice(f"step {number}: {pragma}", "", int(value) if value.isdecimal() else value))
        else:
            space.append(f"{kind} {fields}")
    return Choices(";".join(space), found)
