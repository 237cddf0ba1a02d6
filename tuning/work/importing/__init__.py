"""Logs that others wrote become runs."""

from .job import LogFile, carry_out, discard_left, open_log, uploaded

__all__ = ("LogFile", "carry_out", "discard_left", "open_log", "uploaded")
