"""Runs whose best records are measured side by side."""

from .side_by_side import MeasuredAgainDict, SideBySide, SideBySideDict

__all__ = ("MeasuredAgainDict", "SideBySide", "SideBySideDict")
