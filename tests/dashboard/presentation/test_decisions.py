"""Decisions of two schedules beside each other."""

from __future__ import annotations

from dashboard.presentation.decisions import paired
from tuning.reads.showing import Decision


def tile(of: str, choice: str, block: str = "matmul") -> Decision:
    return Decision("sample_perfect_tile", of, block, 64, [], choice, [])


def test_each_stands_beside_its_like() -> None:
    pairs = paired([tile("i", "2 × 32"), tile("j", "1 × 64")], [tile("i", "4 × 16"), tile("j", "1 × 64")])
    assert [(pair.asked.of, pair.differs) for pair in pairs] == [("i", True), ("j", False)]


def test_what_only_one_was_asked_stands_alone() -> None:
    left = [tile("i", "2 × 32"), tile("k", "8 × 8")]
    right = [tile("i", "2 × 32"), tile("k", "8 × 8", "matmul_rf"), tile("k", "8 × 8")]
    pairs = paired(left, right)
    assert [(bool(pair.left), bool(pair.right), pair.differs) for pair in pairs] == [
        (True, True, False),
        (False, True, True),
        (True, True, False),
    ]
    assert pairs[1].asked.block == "matmul_rf"


def test_a_schedule_without_decisions_has_none_beside_it() -> None:
    assert paired([], []) == []
    assert [pair.right for pair in paired([tile("i", "64")], [])] == [None]
