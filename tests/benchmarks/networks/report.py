"""The tables of bench_networks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import truediv
from statistics import geometric_mean, median

from tuning.models.shapes import ProfileDict

from .busy import LONGEST_S, SIDES, Busy
from .plan import set_to
from .shipping import Shipped
from .stock import Stock

COLUMNS = (
    "Network",
    "Target",
    "Trials",
    "Tuned in (min)",
    "Estimate (ms)",
    "Tuned (ms)",
    "÷ estimate",
    "÷ its records then",
    "ONNX Runtime (ms)",
    "÷ ONNX Runtime",
    "÷ stock TVM",
    "Untuned (ms)",
    "Verified",
)
PROFILE = (
    "Network",
    "Estimate (ms)",
    "Functions inside (ms)",
    "Virtual machine (ms)",
    "Its calls",
    "Largest functions",
)
BUSY = ("Network", "", "Bound to cores (ms)", "Not bound (ms)", "ONNX Runtime (ms)")
LARGEST = 3
"""Functions that are named."""


def ratio(one: Shipped, side: str) -> float | None:
    """The tuned library's median time, divided by that of another side; None if that wasn't measured."""
    other = one.rounds.get(side)
    return median(one.rounds["tuned"]) / median(other) if other else None


def over_estimate(one: Shipped) -> float | None:
    """The tuned library's median time, divided by the estimate."""
    return median(one.rounds["tuned"]) / one.estimate_s if one.estimate_s else None


def over_records(one: Shipped) -> float | None:
    """The library's time, divided by that of its records alone at the same time: the median over rounds. None if that wasn't measured."""
    rounds = one.together
    return median(map(truediv, rounds.library, rounds.alone)) if rounds else None


def markdown(found: Sequence[Shipped]) -> str:
    """For each budget, the largest first, its geometric mean, the figures, and where the time goes."""
    return "\n\n".join(_of_budget(found, share) for share in sorted({one.share for one in found}, reverse=True))


def _of_budget(found: Sequence[Shipped], share: float) -> str:
    rows = [one for one in found if one.share == share]
    table = _table(COLUMNS, map(_cells, rows))
    profiled = [(one, one.profile) for one in rows if one.profile]
    if profiled:
        table += "\n\n" + _table(PROFILE, (_profile(one, profile) for one, profile in profiled))
    if beside := [(_name(one), one.busy) for one in rows if one.busy]:
        table += "\n\n" + _table(BUSY, (line for name, busy in beside for line in _beside(name, busy)))
    ratios = [each for each in (ratio(one, "onnxruntime") for one in rows) if each]
    mean = f"{geometric_mean(ratios):.3f} over {len(ratios)} tunings" if ratios else "not measured"
    return f"{share:.0%} of the budget; geometric mean of tuned ÷ ONNX Runtime: {mean}.\n\n{table}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ("---",) * len(header), *rows))


def _profile(one: Shipped, profile: ProfileDict) -> tuple[str, ...]:
    parts = [(part["calls"] * part["inside_s"], part["function"]) for part in profile["functions"]]
    inside_s = sum(seconds for seconds, _ in parts)
    largest = sorted(parts, reverse=True)[:LARGEST]
    return (
        _name(one),
        "not recorded" if one.estimate_s is None else f"{one.estimate_s * 1e3:.4g}",
        f"{inside_s * 1e3:.4g}",
        f"{profile['machine_s'] * 1e3:.2g}",
        str(profile["machine_calls"]),
        ", ".join(f"{name} {seconds / inside_s:.0%}" for seconds, name in largest),
    )


def _name(one: Shipped) -> str:
    return ", ".join([one.network, *set_to(one.options)])


def _cells(one: Shipped) -> tuple[str, ...]:
    of_estimate, of_records, of_onnxruntime = over_estimate(one), over_records(one), ratio(one, "onnxruntime")
    return (
        _name(one),
        one.cpu if one.cores is None else f"{one.cpu}, {one.cores} cores",
        str(one.trials),
        "not recorded" if one.tuned_for_s is None else f"{one.tuned_for_s / 60:.1f}",
        "not recorded" if one.estimate_s is None else f"{one.estimate_s * 1e3:.4g}",
        _spread(one.rounds["tuned"]),
        "not recorded" if of_estimate is None else f"{of_estimate:.2f}",
        "not measured" if of_records is None else f"{of_records:.2f}",
        _spread(one.rounds.get("onnxruntime")),
        "not measured" if of_onnxruntime is None else f"{of_onnxruntime:.2f}",
        _of_stock(one.stock),
        _spread(one.rounds.get("untuned")),
        _verified(one),
    )


def _beside(name: str, measured: Busy) -> Iterator[tuple[str, ...]]:
    """Inferences beside nothing else, and beside a busy core."""
    for how, sides in (("quiet", measured.quiet), ("a core busy", measured.busy)):
        yield (name, how, *(_spread(sides[side]) if sides[side] else f"above {LONGEST_S:g} s" for side in SIDES))


def _of_stock(stock: Stock | None) -> str:
    """Our library's median time, divided by that of stock TVM's, and how far that came."""
    if stock is None:
        return "not measured"
    found = stock.measured
    if found is None:
        return f"nothing scheduled: {stock.trials} trials in time"
    ratio = median(found.ours) / median(found.stock)
    return f"{ratio:.2g} ({stock.trials} trials in time, last report after {stock.tuned_for_s / 60:.1f} min, {found.scheduled} of {found.functions} functions scheduled)"


def _verified(one: Shipped) -> str:
    scheduled = one.functions - len(one.untuned_functions)
    covered = "" if not one.untuned_functions else f", {scheduled} of {one.functions} functions scheduled"
    error = "" if one.max_rel_error is None else f" ({one.max_rel_error:.0e})"
    return f"{'yes' if one.verified else 'no'}{error}{covered}"


def _spread(seconds: Sequence[float] | None) -> str:
    """The median, with the least and the most."""
    if not seconds:
        return "not measured"
    least, middle, most = (f"{value * 1e3:.4g}" for value in (min(seconds), median(seconds), max(seconds)))
    return f"{middle} ({least} to {most})"
