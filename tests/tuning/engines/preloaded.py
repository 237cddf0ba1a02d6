"""Preloaded by the tests' fork server: TVM as in an engine."""

from __future__ import annotations

from tuning.engines.meta_schedule.engine import prepare

prepare("llvm")
