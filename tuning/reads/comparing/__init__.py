"""Compare runs: match their tasks, compute the differences, and warn about what isn't comparable."""

from .choosing import FEWEST, MOST, baseline_of, runs_of, usable
from .comparison import compare
from .shapes import (
    BesideDict,
    CaveatDict,
    ComparedCellDict,
    ComparedRunDict,
    ComparedTaskDict,
    ComparisonDict,
    DifferentOptionDict,
    LoneTaskDict,
    MeasuredBesideDict,
)

__all__ = (
    "FEWEST",
    "MOST",
    "BesideDict",
    "CaveatDict",
    "ComparedCellDict",
    "ComparedRunDict",
    "ComparedTaskDict",
    "ComparisonDict",
    "DifferentOptionDict",
    "LoneTaskDict",
    "MeasuredBesideDict",
    "baseline_of",
    "compare",
    "runs_of",
    "usable",
)
