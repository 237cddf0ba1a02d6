"""What is left to gain from a run: what others have reached, and what more trials are expected to bring."""

from .best_known import any_alike
from .expecting import FEWEST, is_foreseeable, more, will_be_foreseeable
from .roofs import Roof, roofline_of
from .verdict import Gain, GainDict, Verdict, VerdictDict, verdict

__all__ = (
    "FEWEST",
    "Gain",
    "GainDict",
    "Roof",
    "Verdict",
    "VerdictDict",
    "any_alike",
    "is_foreseeable",
    "more",
    "roofline_of",
    "verdict",
    "will_be_foreseeable",
)
