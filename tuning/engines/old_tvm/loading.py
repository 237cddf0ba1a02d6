"""How an old TVM is loaded: what must be set, imported first, or stood in for."""

import importlib
import os
import platform
import sys
import types
from typing import Any, Dict, Optional, TextIO


def prepare() -> None:
    """Call this before TVM is imported."""
    # Otherwise TVM tries a download; when that fails, it extracts too few tasks without an error.
    os.environ["TOPHUB_LOCATION"] = "NONE"
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _imported("xgboost")  # Recent ones abort the process when they are imported after TVM.
    if _imported("pytest") is None:
        # The networks of relay.testing need nothing of it, but their package imports it.
        sys.modules["pytest"] = types.ModuleType("pytest")


def _imported(name: str) -> Optional[Any]:
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001  a broken module is like none
        return None


def versions() -> Dict[str, str]:
    """Versions of what affects the result, by package."""
    found = {"apache-tvm": _imported("tvm"), "xgboost": _imported("xgboost"), "numpy": _imported("numpy")}
    told = {package: str(module.__version__) for package, module in found.items() if module is not None}
    return {**told, "python": platform.python_version()}


def xgboost_problem(tvm_version: str) -> Optional[str]:
    """Why this TVM can't learn with the xgboost that is installed; None if it can."""
    try:
        xgboost = importlib.import_module("xgboost")
        core = importlib.import_module("xgboost.core")
    except Exception as error:  # noqa: BLE001  whatever it raises is the answer
        return f"xgboost can't be imported: {in_one_line(error)}"
    old = tuple(int(part) for part in tvm_version.split(".")[:2]) < (0, 12)
    if old and not hasattr(core, "EarlyStopException"):
        # TVM itself would say so only after the first batch of trials.
        return f"TVM {tvm_version} needs an xgboost before 1.6, but {xgboost.__version__} is installed."
    return None


def xgboost_is_new() -> bool:
    """Whether it is one that no longer takes what AutoTVM calls `rank`."""
    xgboost = _imported("xgboost")
    return xgboost is not None and int(str(xgboost.__version__).split(".", maxsplit=1)[0]) > 1


def private_stdout() -> TextIO:
    """What stdout is now. From here on, what TVM prints goes to stderr."""
    kept = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return kept


def in_one_line(error: BaseException) -> str:
    """`ValueError: its text`: of several lines the first, but the last after a trace, as TVM's errors have."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    line = lines[-1] if "Traceback" in text or "Stack trace" in text else lines[0]
    return f"{type(error).__name__}: {line[:500]}"
