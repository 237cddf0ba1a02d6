from __future__ import annotations

import pytest

from tuning.engines.old_tvm.shares import trials_per_task

FAR = 1000


@pytest.mark.parametrize(
    ("done", "limits", "left", "goals"),
    [
        ([0, 0, 0], [FAR, FAR, FAR], 12, [4, 4, 4]),
        ([4, 4, 1], [FAR, FAR, FAR], 3, [4, 4, 4]),
        ([0, 0, 0], [2, FAR, FAR], 12, [2, 5, 5]),
        ([10, 0, 0], [FAR, FAR, FAR], 4, [10, 2, 2]),
        ([3, 3], [5, 4], 100, [5, 4]),
        ([0, 0, 0], [FAR, FAR, FAR], 1, [1, 1, 1]),
    ],
)
def test_tasks_share_what_is_left_equally(done: list[int], limits: list[int], left: int, goals: list[int]) -> None:
    assert trials_per_task(dict(enumerate(done)), dict(enumerate(limits)), left) == dict(enumerate(goals))
