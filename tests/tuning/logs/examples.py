"""Small logs of every format and version, made up after real ones."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tuning.logs.neutral import BadLine, Trial
from tuning.logs.opening import Log, Opened, open_logs
from tuning.logs.sources import of_files

MD5 = "00a059b856ac30ac172b6252254479a6"
STEPS: list[Any] = [["CI", 5], ["SP", 3, 0, 1, [1, 1], 1], ["PR", 3, 0, "auto_unroll_max_step$512"]]
HARDWARE = [8, 64, 64, 0, 0, 0, 0, 0]
AUTO_SCHEDULER_TASKS: dict[str, list[Any]] = {
    "v0.2": ['["matmul_add", 128, 128, 128, "float32"]', "llvm -keys=cpu"],
    "v0.3": [f'["{MD5}"]', "llvm -keys=cpu", HARDWARE],
    "v0.4": [f'["{MD5}", 1, 1000, 1, 1000]', "cuda -keys=cuda,gpu -arch=sm_80", HARDWARE, "llvm -keys=cpu"],
    "v0.5": [f'["{MD5}", 1, 1000, 1, 1000]', "llvm -keys=cpu -link-params=0", HARDWARE, "", 2],
    "v0.6": [f'["{MD5}", [1, 1280], [1000, 1280], [1, 1000]]', "llvm -keys=cpu", HARDWARE, "", 1, []],
}
CONV2D: list[Any] = [
    ["TENSOR", [1, 512, 7, 7], "float32"],
    ["TENSOR", [512, 512, 3, 3], "float32"],
    [1, 1],
    [1, 1, 1, 1],
    [1, 1],
    "float32",
]
VTA: list[Any] = [
    ["TENSOR", [1, 16, 14, 14, 1, 16], "int8"],
    ["TENSOR", [16, 16, 3, 3, 16, 16], "int8"],
    [1, 1],
    [1, 1, 1, 1],
    [1, 1],
    "NCHW1n16c",
    "int32",
]
ENTITY: list[Any] = [["tile_x", "sp", [-1, 8]], ["ann_reduce", "an", "unroll"], ["unroll", "ot", 512]]


def auto_scheduler(
    version: str = "v0.6", costs: Any = (0.002, 0.004), error: int = 0, at: float = 1_700_000_000
) -> str:
    task = AUTO_SCHEDULER_TASKS.get(version, AUTO_SCHEDULER_TASKS["v0.6"])
    return json.dumps({"i": [task, [[], STEPS]], "r": [costs, error, 0.5, at], "v": version})


def autotvm(  # noqa: PLR0917 - what a test is about comes first
    name: str = "conv2d_nchw.cuda",
    args: Any = CONV2D,
    costs: Any = (0.002, 0.004),
    error: int = 0,
    at: float = 1_700_000_000.5,
    target: str = "cuda -model=v100",
) -> str:
    config = {"index": 7, "code_hash": None, "entity": ENTITY}
    record = {"input": [target, name, args, {}], "config": config, "result": [costs, error, 0.5, at]}
    return json.dumps(record | {"version": 0.2, "tvm_version": "0.9.dev0"})


def old_autotvm(template: str = "direct", costs: Any = (0.002,), error: int = 0, at: float = 1_500_000_000) -> str:
    workload = ["conv2d", [1, 512, 7, 7, "float32"], [512, 512, 3, 3, "float32"], [1, 1], [1, 1], "NCHW", "float32"]
    config = {"i": 7, "t": template, "c": None, "e": ENTITY}
    given = ["cuda -model=1080ti", "topi_nn_conv2d", CONV2D, {}, workload, config]
    return json.dumps({"i": given, "r": [costs, error, 0.5, at], "v": 0.1})


ARGS_INFO = [["TENSOR", "float32", [64, 64]], ["TENSOR", "float32", [64, 64]]]
LLVM = {"kind": "llvm", "keys": ["cpu"], "num-cores": 4}
TRACE: list[Any] = [[["GetBlock", [], ["matmul", "main"], ["b0"]], ["EnterPostproc", [], [], []]], [[0, [1, 64]]]]


def meta_schedule(index: int = 0, costs: Any = (0.002, 0.004), target: Any = LLVM, args: Any = ARGS_INFO) -> str:
    return json.dumps([index, [TRACE, costs, target, args]])


def old_module(shape: tuple[int, ...] = (64, 64), dtype: str = "float32") -> dict[str, Any]:
    """As TVM up to 0.21 writes a module whose two arguments have this shape."""
    extents = [
        {"type_key": "IntImm", "attrs": {"dtype": "int64", "span": "0", "value": str(extent)}} for extent in shape
    ]
    nodes: list[dict[str, Any]] = [
        {"type_key": ""},
        {"type_key": "IRModule", "attrs": {}},
        {"type_key": "tir.PrimFunc", "attrs": {"params": "3", "buffer_map": "4", "body": "0"}},
        {"type_key": "Array", "data": [5, 6]},
        {"type_key": "Map", "data": [6, 8, 5, 7]},
        {"type_key": "tir.Var", "attrs": {"dtype": "handle", "name": "9"}},
        {"type_key": "tir.Var", "attrs": {"dtype": "handle", "name": "9"}},
        {"type_key": "tir.Buffer", "attrs": {"dtype": dtype, "name": "10", "shape": "12"}},
        {"type_key": "tir.Buffer", "attrs": {"dtype": dtype, "name": "11", "shape": "12"}},
        {"type_key": "runtime.String", "repr_str": "handle"},
        {"type_key": "runtime.String", "repr_str": "A"},
        {"type_key": "runtime.String", "repr_str": "B"},
        {"type_key": "Array", "data": list(range(13, 13 + len(shape)))},
        *extents,
    ]
    return {"root": 1, "nodes": nodes, "b64ndarrays": [], "attrs": {"tvm_version": "0.8.0"}}


def new_module(shape: tuple[int, ...] = (64, 64), dtype: str = "float32") -> dict[str, Any]:
    """As TVM 0.27 writes the same: shapes are those of the parameters' types, and integers are nodes."""
    extents = [
        node
        for at, extent in enumerate(shape)
        for node in ({"type": "int", "data": extent}, {"type": "ir.IntImm", "data": {"value": 9 + 2 * at}})
    ]
    nodes: list[dict[str, Any]] = [
        {"type": "None"},
        {"type": "tirx.PrimFunc", "data": {"params": 2, "body": 0}},
        {"type": "ffi.Array", "data": [3, 4]},
        {"type": "ir.Var", "data": {"ty": 7, "name": 5}},
        {"type": "ir.Var", "data": {"ty": 7, "name": 6}},
        {"type": "ffi.String", "data": "A"},
        {"type": "ffi.String", "data": "B"},
        {"type": "tirx.BufferType", "data": {"dtype": 13, "shape": 8}},
        {"type": "ffi.Array", "data": [10 + 2 * at for at in range(len(shape))]},
        *extents,
        {"type": "ir.PrimType", "data": {"dtype": dtype}},
    ]
    nodes[7]["data"]["dtype"] = len(nodes) - 1
    return {"root_index": 1, "nodes": nodes, "metadata": {"tvm_version": "0.27.0"}}


def hashed(structural_hash: int) -> str:
    """A structural hash as TVM prints it."""
    return f"0x{structural_hash:016x}"


def workload(structural_hash: str = "12345", module: dict[str, Any] | None = None) -> str:
    text = json.dumps(module or old_module()).encode()
    return json.dumps([structural_hash, base64.b64encode(len(text).to_bytes(8, "little") + text).decode()])


EVERY_VERSION = {
    **{f"auto_scheduler {version}": auto_scheduler(version) for version in AUTO_SCHEDULER_TASKS},
    "AutoTVM 0.1": old_autotvm(),
    "AutoTVM 0.2": autotvm(),
    "VTA": autotvm(
        "conv2d_packed.vta", VTA, target="ext_dev -device=vta -keys=vta,cpu -model=sim_1x16_i8w8a32_15_15_18_17"
    ),
    "MetaSchedule": meta_schedule(),
}


def open_text(**files: str | bytes) -> Opened:
    """The logs of these files. `__` in a name stands for `/`, and names end in `.json`."""
    return open_files({name.replace("__", "/") + ".json": text for name, text in files.items()})


def open_files(files: Mapping[str, str | bytes]) -> Opened:
    contents = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    return open_logs(of_files((name, partial(io.BytesIO, data)) for name, data in contents.items()))


def lines(*records: str, end: str = "\n") -> str:
    return "\n".join(records) + end


def everything(log: Log) -> list[Trial | BadLine]:
    return [each for batch in log.batches() for each in batch]


def trials(found: Iterable[Trial | BadLine]) -> list[Trial]:
    return [each for each in found if isinstance(each, Trial)]


def bad(found: Iterable[Trial | BadLine]) -> list[BadLine]:
    return [each for each in found if isinstance(each, BadLine)]


def read(*records: str, end: str = "\n") -> tuple[Log, list[Trial | BadLine]]:
    """The only log of a file with these lines, and what is in it."""
    opened = open_text(log=lines(*records, end=end))
    (log,) = opened.logs
    return log, everything(log)
