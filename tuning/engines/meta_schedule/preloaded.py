"""Imported by a fork server as it starts: loads what workers need where it couldn't be forked from its engine."""

from __future__ import annotations

import os

from tuning.engines.targets import intrinsics

from . import session

intrinsics.load(os.environ[session.INTRINSICS])
