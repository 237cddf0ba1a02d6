"""Signals by name, for people."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; real-time signals have no name of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
