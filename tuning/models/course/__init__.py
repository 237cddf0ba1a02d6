"""How a run went: where the time of its rounds went, what its cost model knew, and what the machine was like."""

from .conditions import ConditionSample, ConditionSession
from .rounds import PARTS, Ranking, Round

__all__ = ("PARTS", "ConditionSample", "ConditionSession", "Ranking", "Round")
