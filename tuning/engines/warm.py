"""Preloaded by the fork server, so that every worker starts with TVM loaded.

Importing this module has effects; nothing else may import it.
"""

from __future__ import annotations

import os

from . import intrinsics
from .lifeline import die_with

die_with(int(os.environ["TUNEBOARD_ENGINE_PID"]))

import tvm.s_tir.meta_schedule  # noqa: E402, F401

from . import workers  # noqa: E402, F401

intrinsics.load(os.environ["TUNEBOARD_TARGET_KIND"])
