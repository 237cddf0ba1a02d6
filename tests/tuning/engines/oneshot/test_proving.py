"""What a proof does before it compares; `test_compiling` has proofs of real libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuning.engines.oneshot import proving


class Library:
    """Stands in for a library on a GPU, and keeps what it is given."""

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def on(self, given: dict[str, Any]) -> Library:
        self.given.append(given)
        return self

    def outputs(self) -> list[Any]:
        return []


def test_graphs_are_captured_with_other_inputs_than_those_that_count() -> None:
    """A graph that launched what it was captured with would give the outputs for these."""
    library, cases = Library(), [{"x": np.full((batch, 3), 2.0, "float16")} for batch in (1, 8)]
    proving._capture(library, cases)  # type: ignore[arg-type]
    assert [one["x"].shape for one in library.given] == [(1, 3), (8, 3)]
    assert all(one["x"].dtype == "float16" and not one["x"].any() for one in library.given)
