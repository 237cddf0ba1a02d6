"""The tables of bench_networks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean, median

from .plan import set_to
from .shipping import Shipped

COLUMNS = (
    "Network",
    "CPU",
    "Trials",
    "Tuned in (min)",
    "Estimate (ms)",
    "Tuned (ms)",
    "÷ estimate",
    "ONNX Runtime (ms)",
    "÷ ONNX Runtime",
    "Untuned (ms)",
    "Verified",
)


def ratio(one: Shipped, side: str) -> float | None:
    """The tuned library's median time, divided by that of another side; None if that wasn't measured."""
    other = one.rounds.get(side)
    return median(one.rounds["tuned"]) / median(other) if other else None


def over_estimate(one: Shipped) -> float | None:
    """The tuned library's median time, divided by the estimate, or by what confirmation made of it."""
    promised = one.confirmed_s or one.estimate_s
    return median(one.rounds["tuned"]) / promised if promised else None


def markdown(found: Sequence[Shipped]) -> str:
    """A table for each budget, the largest first, each followed by its geometric mean."""
    return "\n\n".join(_table(found, share) for share in sorted({one.share for one in found}, reverse=True))


def _table(found: Sequence[Shipped], share: float) -> str:
    rows = [one for one in found if one.share == share]
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(_cells(one) for one in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    ratios = [each for each in (ratio(one, "onnxruntime") for one in rows) if each]
    mean = f"{geometric_mean(ratios):.3f} over {len(ratios)} tunings" if ratios else "not measured"
    return f"{share:.0%} of the budget; geometric mean of tuned ÷ ONNX Runtime: {mean}.\n\n{table}"


def _cells(one: Shipped) -> tuple[str, ...]:
    promised = one.confirmed_s or one.estimate_s
    of_estimate, of_onnxruntime = over_estimate(one), ratio(one, "onnxruntime")
    return (
        ", ".join([one.network, *set_to(one.options)]),
        f"{one.cpu}, {one.cores} cores",
        str(one.trials),
        "not recorded" if one.tuned_for_s is None else f"{one.tuned_for_s / 60:.1f}",
        "not recorded" if promised is None else f"{promised * 1e3:.4g}",
        _spread(one.rounds["tuned"]),
        "not recorded" if of_estimate is None else f"{of_estimate:.2f}",
        _spread(one.rounds.get("onnxruntime")),
        "not measured" if of_onnxruntime is None else f"{of_onnxruntime:.2f}",
        _spread(one.rounds.get("untuned")),
        _verified(one),
    )


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
