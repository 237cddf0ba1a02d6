"""An interpreter with an older TVM whose answer is made up, for tests of what is done with the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tuning.engines.wire.legacy import Probed
from tuning.host import interpreters
from tuning.host.interpreters import Asked

FOUND = Probed(
    tvm="0.9.dev0",
    versions={"apache-tvm": "0.9.dev0", "python": "3.8.18"},
    engines={"auto_scheduler": None, "autotvm": None},
    tuners=["xgb", "xgb_rank", "ga", "random", "gridsearch"],
    xgboost=None,
    relay_testing=None,
    onnx=None,
    targets={"llvm": None, "cuda": "RuntimeError: TVM finds no such device"},
    cpu={"kind": "llvm"},
    rpc=True,
    vta=None,
)


def name(settings: Any, monkeypatch: pytest.MonkeyPatch, *names: str, **changes: Any) -> Probed:
    """Name interpreters in the settings that all answer so."""
    found = msgspec.structs.replace(FOUND, **changes)
    settings.LEGACY_PYTHON = {each: Path("/opt") / each for each in names or ("tvm0.9",)}
    for function in ("ask", "look"):
        monkeypatch.setattr(interpreters, function, lambda _name: Asked(found))
    return found
