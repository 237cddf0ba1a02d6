"""Random numbers that can be repeated: TUNEBOARD_FAULT_SEED gives the seed that a failed test printed."""

from __future__ import annotations

import os
import random

VARIABLE = "TUNEBOARD_FAULT_SEED"


def seed() -> int:
    return int(os.environ.get(VARIABLE) or random.SystemRandom().randrange(10**6))


def repeated_by(seed: int) -> str:
    """What a failed test says, so that it can be repeated."""
    return f"Repeat with {VARIABLE}={seed}."
