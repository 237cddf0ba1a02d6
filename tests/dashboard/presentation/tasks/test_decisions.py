"""Pairing the decisions of two schedules."""

from __future__ import annotations

from dashboard.presentation.tasks.decisions import paired
from tuning.reads.showing import Decision


def tile(of: str, choice: str, block: str = "matmul") -> Decision:
    return Decision("sample_perfect_tile", of, block, 64, [], choice, [])


def test_decisions_about_the_same_loop_are_paired() -> None:
    pairs = paired([tile("i", "2 × 32"), tile("j", "1 × 64")], [tile("i", "4 × 16"), tile("j", "1 × 64")])
    assert [(pair.asked.of, pair.differs) for pair in pairs] == [("i", True), ("j", False)]


def test_a_decision_of_only_one_schedule_is_not_paired() -> None:
    left = [tile("i", "2 × 32"), tile("k", "8 × 8")]
    right = [tile("i", "2 × 32"), tile("k", "8 × 8", "matmul_rf"), tile("k", "8 × 8")]
    pairs = paired(left, right)
    assert [(bool(pair.left), bool(pair.right), pair.differs) for pair in pairs] == [
        (True, True, False),
        (False, True, True),
        (True, True, False),
    ]
    assert pairs[1].asked.block == "matmul_rf"


def test_a_schedule_without_decisions_has_no_pairs() -> None:
    assert paired([], []) == []
    assert [pair.right for pair in paired([tile("i", "64")], [])] == [None]
