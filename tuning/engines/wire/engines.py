"""The engines that a run can choose, as the form, the API and the command line offer them. No TVM here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import msgspec

from .catalog import BUILTIN, BuiltinNetwork
from .legacy import RELAY, RelayNetwork
from .options.legacy import AutoSchedulerOptions, AutoTvmOptions
from .options.meta_schedule import Options

EngineOptions = Union[Options, AutoSchedulerOptions, AutoTvmOptions]


@dataclass(frozen=True)
class Engine:
    """What tunes. `module` is the program of its process."""

    name: str
    title: str
    description: str
    module: str
    options: type[Options | AutoSchedulerOptions | AutoTvmOptions]
    networks: Mapping[str, BuiltinNetwork | RelayNetwork]
    """Those that it builds itself."""
    legacy: bool = True
    """Whether it runs under another interpreter, with a TVM that still has it."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """What runs did that were launched before these options existed; with them, none of these is stored."""

    def options_of(self, given: Mapping[str, Any]) -> EngineOptions:
        """Options as stored with a run. Raises `msgspec.ValidationError`."""
        return msgspec.convert({**self.before, **given}, self.options)


META_SCHEDULE = "meta_schedule"
_ENGINES = (
    Engine(
        META_SCHEDULE,
        "MetaSchedule",
        "TVM’s current tuner.",
        "tuning.engines.meta_schedule",
        Options,
        BUILTIN,
        legacy=False,
        before={
            "activations": "as_given",
            "algorithms": "direct",
            "cold_weights": False,
            "columns": "as_given",
            "data_layout": "as_given",
            "filters": "as_given",
            "neighbours": False,
            "quantized": "floats",
            "schedule_rules": "tvm",
            "transfer": False,
            "transposed": "over_zeros",
            "winograd": "step_by_step",
        },
    ),
    Engine(
        "auto_scheduler",
        "auto_scheduler",
        "Ansor: sketches and an evolutionary search. TVM dropped it in 0.20.",
        "tuning.engines.old_tvm.auto_scheduler",
        AutoSchedulerOptions,
        RELAY,
    ),
    Engine(
        "autotvm",
        "AutoTVM",
        "Templates with knobs, one task after the other. TVM dropped it in 0.20.",
        "tuning.engines.old_tvm.autotvm",
        AutoTvmOptions,
        RELAY,
    ),
)
ENGINES: dict[str, Engine] = {engine.name: engine for engine in _ENGINES}
