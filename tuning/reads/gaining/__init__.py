"""What is left to gain from a run: what others have reached, and what more trials are expected to bring."""

from .expecting import more
from .roofs import Roof
from .verdict import Gain, GainDict, Verdict, VerdictDict, verdict

__all__ = ("Gain", "GainDict", "Roof", "Verdict", "VerdictDict", "more", "verdict")
