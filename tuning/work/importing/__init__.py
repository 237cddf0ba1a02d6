"""Logs that others wrote become runs."""

from .job import LogFile, carry_out, discard_left, uploaded

__all__ = ("LogFile", "carry_out", "discard_left", "uploaded")
