"""What a fork server of tests has loaded: TVM as an engine has it."""

from __future__ import annotations

from tuning.engines.meta_schedule.engine import prepare

prepare("llvm")
