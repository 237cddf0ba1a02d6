"""Tells what this interpreter's TVM can do: `python -m tuning.engines.old_tvm.probe`. See `wire.legacy.Probed`.

Some failures abort the process or hang, so each step is announced before it is tried. Without TVM there is no answer: the last line of
stderr says why.
"""

import importlib
import json
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, NoReturn, Optional

from . import loading, networks
from .vta import builds

NETWORKS = ("mlp", "resnet", "resnet_3d", "mobilenet", "squeezenet", "inception_v3")
LEARNING = ("xgb", "xgb_rank")
TUNERS = {
    "xgb": "XGBTuner",
    "xgb_rank": "XGBTuner",
    "ga": "GATuner",
    "random": "RandomTuner",
    "gridsearch": "GridSearchTuner",
}
"""Class of `autotvm.tuner` by tuner."""
KINDS = ("llvm", "cuda")


def main() -> None:
    """Answer on the stdout that this process began with."""
    out = loading.private_stdout()
    probe = _Probe(lambda line: out.write(json.dumps(line) + "\n") and out.flush())
    probe.say(probe.answer())


class _Probe:
    def __init__(self, say: Callable[[Dict[str, Any]], Any]) -> None:
        self.say = say

    def answer(self) -> Dict[str, Any]:
        """The fields of `Probed`."""
        self._step("Import xgboost")
        loading.prepare()
        self._step("Import tvm")
        tvm = _imported_or_exit("tvm")
        self._step("Look for xgboost")
        xgboost = loading.xgboost_problem(tvm.__version__)
        engines = {name: self._missing("tvm.relay", "tvm." + name) for name in ("auto_scheduler", "autotvm")}
        cpu = self._cpu()
        networks = self._missing(*("tvm.relay.testing." + name for name in NETWORKS))
        return {
            "type": "probed",
            "tvm": tvm.__version__,
            "versions": loading.versions(),
            "engines": engines,
            "tuners": [] if engines["autotvm"] else _tuners(learning=xgboost is None),
            "xgboost": xgboost,
            "relay_testing": networks,
            "onnx": self._onnx(),
            "targets": {kind: None if cpu and kind == "llvm" else self._why_not({"kind": kind}) for kind in KINDS},
            "cpu": cpu,
            "rpc": self._rpc(),
            **self._vta(),
        }

    def _step(self, text: str) -> None:
        self.say({"type": "step", "text": text})

    def _missing(self, *modules: str) -> Optional[str]:
        """Why one of these modules can't be imported; None if all can."""
        for name in modules:
            self._step("Import " + name)
            try:
                importlib.import_module(name)
            except Exception as error:  # noqa: BLE001  whatever it raises is the answer
                return f"{name}: {loading.in_one_line(error)}"
        return None

    def _onnx(self) -> Optional[str]:
        """Why it can't read models of ONNX, even with that installed; None if it can."""
        missing = self._missing("onnx", "tvm.relay.frontend")
        if missing:
            return missing
        self._step("Read a model of ONNX")
        onnx = importlib.import_module("onnx")
        try:
            networks.from_onnx(_smallest(onnx), {"rows": 2})
        except Exception as error:  # noqa: BLE001  whatever it raises is the answer
            return f"onnx {onnx.__version__}: {loading.in_one_line(error)}"
        return None

    def _cpu(self) -> Optional[Dict[str, Any]]:
        """The least target that works here. Some builds of TVM compile for another machine unless they are told."""
        own = f"{platform.machine()}-linux-gnu"
        found = (
            {"kind": "llvm"},
            {"kind": "llvm", "mtriple": own},
            {"kind": "llvm", "mtriple": own, "mcpu": "core-avx2"},
        )
        return next((target for target in found if self._why_not(target) is None), None)

    def _why_not(self, target: Dict[str, Any]) -> Optional[str]:
        """Why a function for the target can't be built, exported, loaded and run on this machine; None if it can."""
        self._step(f"Build and run a function for {target}")
        try:
            _run(target)
        except Exception as error:  # noqa: BLE001  whatever it raises is the answer
            return loading.in_one_line(error)
        return None

    def _rpc(self) -> bool:
        if self._missing("tvm.rpc", "tvm.support"):
            return False
        return str(importlib.import_module("tvm.support").libinfo().get("USE_RPC")) in ("ON", "1", "TRUE")

    def _vta(self) -> Dict[str, Any]:
        missing = self._missing("vta", "vta.top")
        if missing:
            return {"vta": None, "no_vta": missing}
        self._step("Describe the VTA build")
        try:
            return {"vta": builds.describe(), "no_vta": None}
        except Exception as error:  # noqa: BLE001  whatever it raises is the answer
            return {"vta": None, "no_vta": loading.in_one_line(error)}


def _imported_or_exit(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001  whatever it raises is the answer
        _exit(f"{name} can't be imported: {loading.in_one_line(error)}")


def _exit(reason: str) -> NoReturn:
    raise SystemExit(reason)


def _tuners(*, learning: bool) -> List[str]:
    found = importlib.import_module("tvm.autotvm.tuner")
    return [name for name, kind in TUNERS.items() if hasattr(found, kind) and (learning or name not in LEARNING)]


def _smallest(onnx: Any) -> Any:
    """A model with what each has: an input, one weight, an operator."""
    tensor, number = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    weight = onnx.helper.make_tensor("w", number, [2, 2], [1.0, 2.0, 3.0, 4.0])
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    shape = ["rows", 2]
    graph = onnx.helper.make_graph(
        [product], "graph", [tensor("x", number, shape)], [tensor("y", number, shape)], [weight]
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])


def _run(target: Dict[str, Any]) -> None:
    """Add 1 to some numbers on the target's device. Raises whatever TVM does, or `RuntimeError`."""
    import numpy as np
    import tvm
    from tvm import te

    device = tvm.device(target["kind"], 0)
    if not device.exist:
        raise RuntimeError("TVM finds no such device")
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    schedule = te.create_schedule(b.op)
    if target["kind"] != "llvm":
        schedule[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    folder = tempfile.mkdtemp()
    try:
        path = str(Path(folder, "f.so"))
        tvm.build(schedule, [a, b], target=tvm.target.Target(target), name="f").export_library(path)
        given, got = (tvm.nd.array(np.arange(16, dtype="float32"), device) for _ in range(2))
        tvm.runtime.load_module(path)["f"](given, got)
        if (got.numpy() != np.arange(16) + 1).any():
            raise RuntimeError("its results are wrong")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
