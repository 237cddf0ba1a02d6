"""Words that messages share: what runs and targets are called, and how long something takes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

SPACE = "\u00a0"
"""A no-break space keeps figure and unit on one line."""

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
"""Units of latencies, with their sizes in seconds."""
MOST_FIELDS, LONGEST_FIELD = 3, 40
"""Fields by which targets are told apart, and characters of each."""


CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that steer a terminal, or that make text look like another one; not tab and newline."""


def printable(text: str) -> str:
    r"""Escape control characters, as names and errors from outside may have: `\x1b` instead of ESC."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def numbered(keys: Sequence[int]) -> str:
    """`run 3`, or `runs 1, 2 and 3`; at least one."""
    return f"runs {listed(keys)}" if len(keys) > 1 else f"run {keys[0]}"


def listed(things: Sequence[object]) -> str:
    """`1`, or `1, 2 and 3`; at least one."""
    *others, last = map(str, things)
    return f"{', '.join(others)} and {last}" if others else last


ERROR_KINDS = {
    "build": "build failed",
    "build_timeout": "build timed out",
    "run": "run failed",
    "run_timeout": "run timed out",
    "instantiation": "schedule not applicable",
    "wrong_answer": "wrong answer",
    "unknown": "unknown error",
    "not_recorded": "failed, reason not recorded",
    "no_latency": "no usable time",
}
"""Kinds of errors in words. The first four are those of Tuneboard's own engine; others' logs have more."""


SIMULATORS = {"sim": "VTA’s functional simulator", "tsim": "VTA’s cycle-accurate simulator"}
"""By the beginning of a VTA target's model."""
SIMULATED = "the wall time of {simulator}: they say nothing of how fast VTA itself would be."
"""What times are."""


def internal_error(error: BaseException) -> str:
    """What users see of an error that nobody foresaw."""
    return f"Internal error: {error!r}"


def target_label(target: Any) -> str:
    """A target on one line: its tag, or its kind, processor and cores.

    A target that the engine hasn't resolved yet may be a string: `this` or a tag.
    """
    if not isinstance(target, dict):
        return "this machine" if target == "this" else str(target)
    if target.get("tag"):
        return str(target["tag"])
    if is_vta(target):
        return " · ".join(str(part) for part in ("VTA", target.get("model")) if part)
    parts = (target.get("kind"), _processor(target), _cores(target.get("num-cores")))
    return " · ".join(str(part) for part in parts if part)


def simulator(target: Any) -> str | None:
    """What simulates the target, if it is VTA's hardware in software; its times say nothing of the hardware's."""
    return SIMULATORS.get(str(target.get("model")).partition("_")[0]) if is_vta(target) else None


def is_vta(target: Any) -> bool:
    return isinstance(target, dict) and target.get("device") == "vta"


def target_name(target: Any) -> str:
    """A target in one word: its tag, processor, architecture or kind."""
    if not isinstance(target, dict):
        return str(target)
    words = (target.get(key) for key in ("tag", "mcpu", "arch", "model" if is_vta(target) else "kind", "kind"))
    return next((str(word) for word in words if word), "target")


def target_names(targets: Sequence[Any]) -> list[str]:
    """Each of different targets in a word, and those of the same name with what tells them apart: `znver4 (num-cores 8)`."""
    alike: dict[str, list[Any]] = {}
    for target in targets:
        alike.setdefault(target_name(target), []).append(target)
    return [_told_apart(target_name(target), target, alike[target_name(target)]) for target in targets]


def _told_apart(name: str, target: Any, alike: Sequence[Any]) -> str:
    """The target's name, with fields that aren't the same in all of these."""
    if len(alike) == 1 or not all(isinstance(each, dict) for each in alike):
        return name
    differing = [key for key in dict.fromkeys(key for each in alike for key in each) if not _is_same(key, alike)]
    shown = (f"{key} {_short(target[key])}" if key in target else f"no {key}" for key in differing[:MOST_FIELDS])
    return f"{name} ({', '.join(shown)})"


def _is_same(key: str, targets: Sequence[dict[str, Any]]) -> bool:
    return all(key in each and each[key] == targets[0].get(key) for each in targets)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST_FIELD else f"{text[: LONGEST_FIELD - 1]}…"


def percent(share: float) -> str:
    """A share from 0 to 1."""
    return f"{share * 100:.1f}{SPACE}%"


def signed(value: float, magnitude: str) -> str:
    """The sign of the value before its magnitude in words. Zero after rounding has none."""
    signless = not any(digit in magnitude for digit in "123456789")
    return magnitude if signless else f"{'−' if value < 0 else '+'}{magnitude}"


def difference(change: float, *, within_noise: bool | None) -> str:
    """A relative difference, and whether it means anything: `−3.0 %, within noise`. None: nobody knows the noise."""
    text = signed(change, percent(abs(change)))
    return f"{text}, within noise" if within_noise else text


def plus_minus(noise: float) -> str:
    """The noise of a figure, as it stands behind it: `± 2 %`, with a digit more below 1 %."""
    return f"±{SPACE}{noise * 100:.{1 if noise < 0.00995 else 0}f}{SPACE}%"


def latency(seconds: float) -> str:
    """Seconds as s, ms, µs or ns with four significant digits."""
    return scaled(seconds, TIMES)


def scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Four significant digits of the value in the unit that fits, of units given with their sizes, largest first."""
    # Round before choosing the unit: 999.99 µs is 1.000 ms.
    value = float(f"{value:.3e}")
    size, unit = next((u for u in units if abs(value) >= u[0]), units[-1])
    return f"{digits(value / size, 4)}{SPACE}{unit}".rstrip(SPACE)


def digits(value: float, significant: int) -> str:
    """The value with so many significant digits, and thousands in groups."""
    whole = len(str(int(abs(float(f"{value:.{significant - 1}e}")))))
    return f"{value:,.{max(significant - whole, 0)}f}"


def duration(seconds: float) -> str:
    """Seconds in the two largest units."""
    if seconds < 10:
        return f"{seconds:.1f}{SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}{SPACE}d {hours}{SPACE}h"
    if hours:
        return f"{hours}{SPACE}h {minutes:02}{SPACE}min"
    if minutes:
        return f"{minutes}{SPACE}min {rest:02}{SPACE}s"
    return f"{rest}{SPACE}s"


def _processor(target: dict[str, Any]) -> str | None:
    named = target.get("mcpu") or target.get("arch")
    if named or not target.get("mtriple"):
        return named
    return f"baseline {target['mtriple'].split('-')[0]}"


def _cores(number: int | None) -> str | None:
    if not number:
        return None
    return "1 core" if number == 1 else f"{number} cores"
