"""The rules that make a task's design space: TVM's, and for CPUs ours besides."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import meta_schedule as ms

from tuning.engines.networks.winograd import schedules as winograd
from tuning.engines.targets.registers import registers
from tuning.engines.wire.options.meta_schedule import Options

from .blocks import Blocks
from .register_tiles import RegisterTiles
from .rows import Rows

INLINING = 3
"""TVM's rules that come first: they inline what can be, so that ours sees what will be left."""


def create_space(options: Options, target: Any) -> Any:
    """TVM's space generator, with the options' rules."""
    known = registers(target)
    if known is not None:
        winograd.use(known, int(target.attrs["num-cores"]))
    if options.schedule_rules == "tvm" or known is None:
        return ms.space_generator.PostOrderApply()
    rules = list(ms.schedule_rule.ScheduleRule.create("llvm"))
    return ms.space_generator.PostOrderApply(
        sch_rules=[*rules[:INLINING], RegisterTiles(known), Rows(known), Blocks(known), *rules[INLINING:]],
        postprocs="llvm",
        mutator_probs="llvm",
    )


def begins_with_defaults(options: Options, target: Any) -> bool:
    """Whether tasks begin with TVM's default schedules, which there are for GPUs."""
    return options.schedule_rules == "extended" and str(target.kind.name) == "cuda"
