"""Builds and runs a network with records downloaded from Tuneboard, using only stock TVM.

    unzip resnet-18_znver4_run-12_best-records.zip -d records
    python stock_network.py resnet-18.onnx records

It needs the packages listed in docs/stock_tvm.md and the CPU that the records are for. The ONNX file is the one that was
uploaded. The script prints which functions have a record, and measures the network tuned and untuned on random inputs.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description="Build an ONNX network with downloaded records, using stock TVM.")
    parser.add_argument("model", type=Path, help="the ONNX file that was uploaded")
    parser.add_argument("folder", type=Path, help="the folder with the two files from the zip")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=1,3,224,224",
        help="the shape of an input with open dimensions",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    target = target_of(options.folder)
    # TVM reads both when it is imported.
    os.environ["TVM_NUM_THREADS"] = str(target["num-cores"])
    os.environ["TVM_BIND_THREADS"] = "0"
    shapes = dict(text.split("=", 1) for text in options.input)
    result = compare(options.model, options.folder, target, {name: numbers(text) for name, text in shapes.items()})
    print(json.dumps(result, indent=1) if options.json else summary(result))


def target_of(folder: Path) -> dict[str, Any]:
    """The target of the first record."""
    with (folder / "database_tuning_record.json").open() as file:
        _, (_, _, target, _) = json.loads(file.readline())
    return dict(target)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def compare(model: Path, folder: Path, target_json: dict[str, Any], shapes: dict[str, list[int]]) -> dict[str, Any]:
    """Functions with and without a record, seconds per inference, and the largest difference between the outputs."""
    import numpy as np
    from tvm.target import Target

    target = Target(target_json)
    untuned = load(model, shapes)
    candidates = [apply_records(mod, target, folder) for mod in (untuned, with_channels_last(untuned))]
    tuned = max(candidates, key=lambda mod: len(functions(mod)["tuned"]))
    inputs = [example(param.ty) for param in untuned["main"].params]
    (output, tuned_s), (expected, untuned_s) = (run(mod, target, inputs) for mod in (tuned, untuned))
    return {
        **functions(tuned),
        "tuned_s": tuned_s,
        "untuned_s": untuned_s,
        "max_abs_error": float(np.abs(output - expected).max()),
    }


def example(ty: Any) -> Any:
    """An input of this type: random floats, but zeros for integers, which may be indices."""
    import numpy as np

    shape, dtype = [int(extent) for extent in ty.shape.values], str(ty.dtype)
    if dtype.startswith("float"):
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)
    return np.zeros(shape, dtype)


def load(model: Path, shapes: dict[str, list[int]]) -> Any:
    """The network as Tuneboard tunes it, with batch norms and constants folded."""
    import onnx
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    mod = from_onnx(onnx.load(model), shape_dict=shapes or None, keep_params_in_input=False)
    for step in (
        relax.transform.FoldBatchnormToConv2D(),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.FoldConstant(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(["main"]),
    ):
        mod = step(mod)
    return mod


def with_channels_last(mod: Any) -> Any:
    """The same network with the layout that Tuneboard tunes convolutions in, unless a run's `data_layout` is `as_given`."""
    from tvm import relax

    layouts = {}
    for axes in ("W", "HW", "DHW"):
        layouts[f"relax.nn.conv{len(axes)}d"] = [f"N{axes}C", f"{axes}IO"]
        layouts[f"relax.nn.conv{len(axes)}d_transpose"] = [f"NC{axes}", f"IO{axes}"]
    for step in (
        relax.transform.ConvertLayout(layouts),
        relax.transform.EliminateCommonSubexpr(),
        relax.transform.FoldConstant(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(["main"]),
    ):
        mod = step(mod)
    return mod


def apply_records(mod: Any, target: Any, folder: Path) -> Any:
    """Run TVM's own pipeline. Without `cpu_weight_prepack` it finds no records for functions with weights."""
    from tvm import relax

    return relax.pipeline.static_shape_tuning_pipeline(
        total_trials=0, target=target, work_dir=str(folder), cpu_weight_prepack=True
    )(mod)


def functions(mod: Any) -> dict[str, list[str]]:
    """Names of the functions with and without a record."""
    names: dict[str, list[str]] = {"tuned": [], "untuned": []}
    for name, function in mod.functions.items():
        if type(function).__name__ == "PrimFunc" and not name.name_hint.endswith("_weight_prepack"):
            names["tuned" if function.attrs.get("tirx.is_scheduled") else "untuned"].append(str(name.name_hint))
    return names


def run(mod: Any, target: Any, inputs: list[Any]) -> tuple[Any, float]:
    """The first output, and seconds per inference: the minimum of several measurements."""
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(relax.build(mod, target), tvm.cpu())
    arguments = [tvm.runtime.tensor(array) for array in inputs]
    output = machine["main"](*arguments)
    first = output if hasattr(output, "numpy") else output[0]
    evaluator = machine.time_evaluator("main", tvm.cpu(), number=1, repeat=5, min_repeat_ms=100)
    return first.numpy(), float(evaluator(*arguments).min)


def summary(result: dict[str, Any]) -> str:
    tuned, untuned = len(result["tuned"]), result["untuned"]
    without = f" (without: {', '.join(untuned)})" if untuned else ""
    return (
        f"{tuned} of {tuned + len(untuned)} functions use a record{without}. "
        f"Tuned {result['tuned_s'] * 1e3:.3f} ms, untuned {result['untuned_s'] * 1e3:.3f} ms; "
        f"their outputs differ by {result['max_abs_error']:.2g} at most."
    )


if __name__ == "__main__":
    main()
