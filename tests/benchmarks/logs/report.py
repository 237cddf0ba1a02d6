"""The tables of bench_import."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

GOAL = 2.0
"""Reading a log may take twice as long as parsing its JSON."""
MB = 1e6


class Finding(msgspec.Struct, frozen=True):
    """One log. `pairs` are CPU seconds of JSON alone and of the import, measured in turn."""

    log: str
    lines: int
    bytes: int
    pairs: list[tuple[float, float]]
    small_lines: int
    small_peak_bytes: int
    peak_bytes: int

    @property
    def ratios(self) -> list[float]:
        return [ours / alone for alone, ours in self.pairs]


class Stored(msgspec.Struct, frozen=True):
    """A log that was imported into a database. `json_s` are CPU seconds of JSON alone, `cpu_s` those of the importing process."""

    database: str
    lines: int
    json_s: float
    cpu_s: float
    elapsed_s: float
    small_lines: int
    small_peak_bytes: int
    peak_bytes: int


def stored_markdown(found: Sequence[Stored]) -> str:
    header = ["Database", "Lines", "JSON alone (s)", "Import (s)", "Import divided by JSON alone", "Elapsed (s)"]
    rows = [[*header, "Peak memory (MB) at lines"], *map(_stored_row, found)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * (len(header) + 1))
    return "\n".join(lines) + "\n"


def _stored_row(one: Stored) -> list[str]:
    figures = [f"{one.json_s:.2f}", f"{one.cpu_s:.2f}", f"{one.cpu_s / one.json_s:.2f}", f"{one.elapsed_s:.0f}"]
    return [one.database, f"{one.lines:,}", *figures, _peaks(one)]


def _peaks(found: Finding | Stored) -> str:
    """Memory for the log and for a tenth of it."""
    small, large = found.small_peak_bytes / MB, found.peak_bytes / MB
    return f"{small:.0f} at {found.small_lines:,}, {large:.0f} at {found.lines:,}"


def markdown(found: Sequence[Finding]) -> str:
    header = [
        "Log",
        "Lines",
        "MB",
        "JSON alone (s)",
        "Import (s)",
        "Import divided by JSON alone",
        "Peak memory (MB) at lines",
    ]
    goal = ["Goal", "", "≥ 100", "", "", f"≤ {GOAL:g}", "independent of size"]
    rows = [header, *map(_row, found), goal]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(header))
    return "\n".join(lines) + "\n"


def _row(finding: Finding) -> list[str]:
    alone, ours = (median(side) for side in zip(*finding.pairs, strict=True))
    ratios = finding.ratios
    return [
        finding.log,
        f"{finding.lines:,}",
        f"{finding.bytes / MB:.0f}",
        f"{alone:.2f}",
        f"{ours:.2f}",
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        _peaks(finding),
    ]
