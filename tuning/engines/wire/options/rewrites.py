"""How a network is computed, where that may differ from what its file says: engines tune it so, and libraries are built so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Precision = Literal["network", "bfloat16"]


class Rewrites(msgspec.Struct, frozen=True):
    """None of them by default."""

    precision: Precision = "network"
    """What products with constant weights are computed in."""
    integers: bool = False
    """Whether quantized operators are computed in integers, as far as the target's CPU can."""
    algorithms: bool = False
    """Whether convolutions may be computed by another algorithm."""
    in_parts: bool = False
    """Whether Winograd's algorithm may go through a convolution in parts."""
    as_extrema: bool = False
    """Whether an uploaded network's leaky ReLUs and bounds are computed as maxima and minima."""
    channels_last: bool = False
    """Whether an uploaded network's convolutions are computed with channels last, if that is worth it."""
    by_phase: bool = False
    """Whether transposed convolutions are computed by phase, as far as they can be."""
    whole_columns: bool = False
    """Whether matrices of constant weights get more columns where no vector divides them."""
    whole_filters: bool = False
    """Likewise filters of convolutions with channels last."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Rewrites:
        """Those of a run with these options, as they are stored: runs of earlier versions don't have all, those of older TVMs have none."""
        precision = options.get("precision", "network")
        in_its_type = (
            precision == "network"
        )  # Products in a smaller type have a layout of their own, and no other algorithms.
        return cls(
            precision=precision,
            integers=options.get("quantized", "floats") != "floats",
            algorithms=options.get("algorithms") == "fastest" and in_its_type,
            in_parts=options.get("winograd") == "in_parts",
            as_extrema=options.get("activations") == "extrema",
            channels_last=options.get("data_layout") == "channels_last",
            by_phase=options.get("transposed") == "by_phase",
            whole_columns=options.get("columns") == "whole_vectors" and in_its_type,
            whole_filters=options.get("filters") == "whole_vectors" and in_its_type,
        )
