"""Modules that stand in for an old TVM's."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.dashboard.client.tuners import MeasureInput, MeasureResult, TuningRecord, Workload


@pytest.fixture
def tvm(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand-ins for the modules of an old TVM that the callbacks use."""

    class PythonBasedMeasureCallback:
        """TVM's own constructor remembers `self.callback`."""

    def encode(measured: MeasureInput, result: MeasureResult) -> str:
        return json.dumps({"input": [measured.target, measured.task.name], "config": measured.config.index})

    scope = SimpleNamespace(in_tuning=True)
    parts: dict[str, dict[str, Any]] = {
        "tvm": {"__version__": "0.9.dev0"},
        "tvm.autotvm": {},
        "tvm.autotvm.env": {"GLOBAL_SCOPE": scope},
        "tvm.autotvm.record": {"encode": encode},
        "tvm.auto_scheduler": {},
        "tvm.auto_scheduler.measure": {"PythonBasedMeasureCallback": PythonBasedMeasureCallback},
        "tvm.auto_scheduler.measure_record": {"dump_record_to_string": lambda i, r: f'{{"i": {i.state}}}'},
        "tvm.meta_schedule": {},
        "tvm.meta_schedule.measure_callback": {"PyMeasureCallback": object},
        "tvm.meta_schedule.utils": {"derived_object": lambda cls: cls},
        "tvm.meta_schedule.database": {"TuningRecord": TuningRecord, "Workload": Workload},
    }
    monkeypatch.setitem(sys.modules, "tvm.s_tir.meta_schedule", None)
    for name, values in parts.items():
        module = ModuleType(name)
        module.__dict__.update(values)
        monkeypatch.setitem(sys.modules, name, module)
    return {"scope": scope}
