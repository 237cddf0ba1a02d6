"""The functions of an assembly text, and the loops of each, found in the graph of their basic blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, Union

LABEL = re.compile(r"([\w.$]+):")
LOCAL = (".L", "LBB", "Ltmp")
"""What the labels inside of functions begin with."""
JUMPS = re.compile(r"(?:j[a-z]+|b|b\.\w+|cbn?z|tbn?z)$")
"""Branches of x86 and AArch64."""
ENDS = re.compile(r"(?:jmp[a-z]*|b|br|ret[a-z]*|ud2|brk|udf)$")
"""After these, the next instruction isn't reached."""


class Instruction(NamedTuple):
    """`line` counts from 1."""

    line: int
    name: str
    operands: str

    @property
    def target(self) -> str | None:
        """The label that it may jump to."""
        return self.operands.rpartition(",")[2].strip() if JUMPS.match(self.name) else None


@dataclass
class Block:
    """Instructions that run one after the other, and the numbers of the blocks that may follow."""

    instructions: list[Instruction] = field(default_factory=list)
    following: list[int] = field(default_factory=list)


class Loop(NamedTuple):
    """Blocks of a loop, in the order of the text; `own` are those that aren't in a loop inside of it. `depth` counts from 1."""

    blocks: list[Block]
    own: list[Block]
    depth: int


def functions(assembly: str, comment: str) -> Iterator[tuple[str, list[Block]]]:
    """Each function's name and blocks. `comment` begins a comment."""
    name, lines = "", list[tuple[str, Instruction | None]]()
    for number, text in enumerate(assembly.splitlines(), 1):
        code = text.partition(comment)[0].strip()
        if label := LABEL.match(code):
            if not label[1].startswith(LOCAL):
                yield from _function(name, lines)
                name, lines = label[1], []
            lines.append((label[1], None))
        elif code and not code.startswith("."):
            mnemonic, *operands = code.split(None, 1)
            lines.append(("", Instruction(number, mnemonic, "".join(operands))))
    yield from _function(name, lines)


def _function(name: str, lines: Sequence[tuple[str, Instruction | None]]) -> Iterator[tuple[str, list[Block]]]:
    blocks, at = _split(lines)
    for number, block in enumerate(blocks):
        last = block.instructions[-1] if block.instructions else None
        if last and last.target in at:
            block.following.append(at[last.target])
        if number + 1 < len(blocks) and not (last and ENDS.match(last.name)):
            block.following.append(number + 1)
    if any(block.instructions for block in blocks):
        yield name, blocks


def _split(lines: Sequence[tuple[str, Instruction | None]]) -> tuple[list[Block], dict[str | None, int]]:
    """The blocks, and the number of the one at each label that is jumped to."""
    targets = {one.target for _, one in lines if one}
    blocks, at = [Block()], dict[Union[str, None], int]()
    for label, instruction in lines:
        if instruction:
            blocks[-1].instructions.append(instruction)
            ends = bool(instruction.target or ENDS.match(instruction.name))
        else:
            ends = label in targets and bool(blocks[-1].instructions)
        if ends:
            blocks.append(Block())
        if instruction is None and label in targets:
            at[label] = len(blocks) - 1
    return blocks, at


def loops(blocks: Sequence[Block]) -> Iterator[Loop]:
    """All loops, outer ones before those inside of them.

    A loop is a set of blocks that reach each other. What is inside of it is found without the block by which it is entered.
    """
    waiting = [(frozenset(range(len(blocks))), 1)]
    while waiting:
        within, depth = waiting.pop()
        for found in _reaching_each_other(blocks, within):
            inside = found - {_entry(blocks, found)}
            inner = frozenset().union(*_reaching_each_other(blocks, inside))
            yield Loop(
                [blocks[number] for number in sorted(found)],
                [blocks[number] for number in sorted(found - inner)],
                depth,
            )
            waiting.append((inside, depth + 1))


def _entry(blocks: Sequence[Block], loop: frozenset[int]) -> int:
    """The block of the loop that is reached from outside; the first one, if there are several."""
    outside = (block for number, block in enumerate(blocks) if number not in loop)
    entered = {number for block in outside for number in block.following} & loop
    return min(entered or loop)


def _reaching_each_other(blocks: Sequence[Block], within: frozenset[int]) -> list[frozenset[int]]:
    """The strongly connected components of the blocks `within` that are loops, as Kosaraju finds them."""
    following = {number: [other for other in blocks[number].following if other in within] for number in within}
    preceding: dict[int, list[int]] = {number: [] for number in within}
    for number, others in following.items():
        for other in others:
            preceding[other].append(number)
    found, known = [], set[int]()
    for root in reversed(_ended(following)):
        component = _reached(root, preceding, known)
        known |= component
        if len(component) > 1 or (component and root in following[root]):
            found.append(frozenset(component))
    return found


def _ended(following: Mapping[int, Sequence[int]]) -> list[int]:
    """The blocks in the order in which a search that goes deep first is done with them."""
    seen, ended = set[int](), list[int]()
    for root in sorted(following):
        work = [(root, False)]
        while work:
            number, done = work.pop()
            if done:
                ended.append(number)
            elif number not in seen:
                seen.add(number)
                work += [(number, True), *((other, False) for other in following[number])]
    return ended


def _reached(root: int, edges: Mapping[int, Sequence[int]], known: AbstractSet[int]) -> set[int]:
    """What is reached from `root` without going through what is known; nothing if that is."""
    reached, work = set[int](), [root]
    while work:
        number = work.pop()
        if number not in reached and number not in known:
            reached.add(number)
            work += edges[number]
    return reached
