"""Imported by a fork server as it starts: loads what workers need where it couldn't be forked from its engine."""

from __future__ import annotations

from tuning.engines.targets import intrinsics

from . import session  # noqa: F401  it loads TVM

intrinsics.load_in_server()
