"""What is left to gain from a run: what others have reached, and what more trials would probably bring."""

from .verdict import Gain, GainDict, Verdict, VerdictDict, verdict

__all__ = ("Gain", "GainDict", "Verdict", "VerdictDict", "verdict")
