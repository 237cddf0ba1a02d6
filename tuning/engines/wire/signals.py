"""Names of signals."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal N` for real-time signals, which have no names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
