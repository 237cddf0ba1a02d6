"""Preloaded by the fork server, so that every worker starts with TVM and its intrinsics loaded.

Importing `tensor_intrin` takes some 10 s of CPU, and TVM's own builder pays that in each worker of each batch.
Importing this module has effects; nothing else may import it.
"""

from __future__ import annotations

import os

from .lifeline import die_with

ENGINE_PID = "TUNEBOARD_ENGINE_PID"
"""Environment variable that names the process whose end is this one's."""

die_with(int(os.environ[ENGINE_PID]))

import tvm.s_tir.tensor_intrin  # noqa: E402, F401

from . import workers  # noqa: E402, F401
