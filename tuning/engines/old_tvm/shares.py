"""How tasks that are tuned one after the other share a budget. No TVM here."""

from typing import Dict


def trials_per_task(done: Dict[int, int], limits: Dict[int, int], left: int) -> Dict[int, int]:
    """How many trials each task should have in the end: as equal as their limits and what is done allow, using up what is left."""
    low, high = 0, max(limits.values())
    while low < high:
        level = (low + high) // 2
        if sum(_goal(done[task], limits[task], level) - done[task] for task in done) < left:
            low = level + 1
        else:
            high = level
    return {task: _goal(done[task], limits[task], low) for task in done}


def _goal(done: int, limit: int, level: int) -> int:
    return max(done, min(limit, level))
