"""Runs as a sentence names them."""

from __future__ import annotations

import pytest

from tuning.wording import numbered


@pytest.mark.parametrize(("keys", "words"), [([3], "run 3"), ([1, 2], "runs 1 and 2"), ([4, 1, 2], "runs 4, 1 and 2")])
def test_runs_are_counted_up(keys: list[int], words: str) -> None:
    assert numbered(keys) == words
