"""Supervises one run, in a process of its own: `python -m tests.benchmarks.fleet.supervising FILE`.

It reads a `Plan` as JSON from stdin, and writes what was `Observed` to the file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import django
import msgspec


def main() -> None:
    """Read the plan, and write what was observed."""
    from .observing import Plan, observe

    plan = msgspec.json.decode(sys.stdin.readline(), type=Plan)
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(observe(plan)))


if __name__ == "__main__":
    django.setup()
    main()
