"""The table of the peers' answers and ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tests.benchmarks.web.questions import UNKNOWN, Answers, slowest

from .measuring import Asked

if TYPE_CHECKING:
    from tests.benchmarks.web.report import Findings

ERROR_CHARACTERS = 120
"""How much of a peer's error is shown."""


def rows(found: Sequence[Findings]) -> list[list[str]]:
    """The header with the sizes, our rows for each database, and the peers' for each store."""
    told: dict[str, dict[int, str]] = {}
    for one in found:
        told[f"Tuneboard on {one.database}: charts of a run"] = {
            size: _ours(slowest(answers), one.web_bytes) for size, answers in one.curves.items()
        }
        told[f"Tuneboard on {one.database}: page of trials, the slowest kind"] = {
            size: _ours(slowest(answers), one.web_bytes) for size, answers in one.pages.items()
        }
    for each in (asked for one in found for asked in one.peers):
        told.setdefault(_title(each), {})[each.trials] = _theirs(each)
    sizes = sorted({size for cells in told.values() for size in cells})
    return [
        ["", *(f"{size:,} trials" for size in sizes)],
        *(_row(title, cells, sizes) for title, cells in told.items()),
    ]


def _row(title: str, cells: Mapping[int, str], sizes: Sequence[int]) -> list[str]:
    return [title, *(cells.get(size, UNKNOWN) for size in sizes)]


def _title(asked: Asked) -> str:
    return f"{asked.peer}{f' {asked.version}' if asked.version else ''} on {asked.store}: {asked.question}"


def _ours(answers: Answers, memory: int | None) -> str:
    return _cell([f"{_seconds(answers.at(0.5))}", *_loads(answers.size, memory)])


def _theirs(asked: Asked) -> str:
    """The first answer and the median of the others, or why there is none."""
    if asked.first_s is None:
        return " ".join(asked.missing.replace("|", " ").split())[:ERROR_CHARACTERS] + _memory_so_far(asked)
    times = f"first {_seconds(asked.first_s * 1e3)}"
    again = asked.median_s
    return _cell(
        [times if again is None else f"{times}, then {_seconds(again * 1e3)}", *_loads(asked.size, asked.memory)]
    )


def _memory_so_far(asked: Asked) -> str:
    return f" (until then {asked.memory / 1e6:,.0f} MB of memory)" if asked.memory else ""


def _loads(size: int | None, memory: int | None) -> list[str]:
    """Megabytes transferred, and megabytes of the server's memory."""
    sent = [] if size is None else [f"{size / 1e6:,.2f} MB"]
    return sent if memory is None else [*sent, f"server {memory / 1e6:,.0f} MB"]


def _seconds(ms: float) -> str:
    return f"{ms / 1e3:.3f} s" if ms < 1e4 else f"{ms / 1e3:,.0f} s"


def _cell(parts: Sequence[str]) -> str:
    return "; ".join(parts)
