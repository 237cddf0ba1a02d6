"""A network with records downloaded from Tuneboard, built and run by stock TVM alone.

    unzip resnet-18_znver4_run-12_best-records.zip -d records
    python stock_network.py resnet-18.onnx records

It needs the packages that docs/stock_tvm.md names, and the CPU that the records are for. The ONNX file is the one that was
uploaded. It says which functions a record was found for, and measures the network tuned and untuned on random inputs.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description="Build an ONNX network with downloaded records by stock TVM.")
    parser.add_argument("model", type=Path, help="the ONNX file that was uploaded")
    parser.add_argument("folder", type=Path, help="where the zip's two files are")
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=1,3,224,224", help="an open input's shape"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    told = target_of(options.folder)
    os.environ["TVM_NUM_THREADS"] = str(told["num-cores"])  # TVM reads it when it is imported.
    shapes = dict(one.split("=", 1) for one in options.input)
    found = compared(options.model, options.folder, told, {name: numbers(text) for name, text in shapes.items()})
    print(json.dumps(found, indent=1) if options.json else sentence(found))


def target_of(folder: Path) -> dict[str, Any]:
    """As the first record tells it."""
    with (folder / "database_tuning_record.json").open() as file:
        _, (_, _, target, _) = json.loads(file.readline())
    return dict(target)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def compared(model: Path, folder: Path, told: dict[str, Any], shapes: dict[str, list[int]]) -> dict[str, Any]:
    """Functions with and without a record, seconds of one inference, and how far the two outputs are apart."""
    import numpy as np
    from tvm.target import Target

    target = Target(told)
    plain = prepared(model, shapes)
    scheduled = with_records(plain, target, folder)
    inputs = [example(one.ty) for one in plain["main"].params]
    (output, tuned_s), (expected, untuned_s) = (run(mod, target, inputs) for mod in (scheduled, plain))
    return {
        **functions(scheduled),
        "tuned_s": tuned_s,
        "untuned_s": untuned_s,
        "max_abs_error": float(np.abs(output - expected).max()),
    }


def example(kind: Any) -> Any:
    """An array of a tensor's type: random where it is of floats, zeros where it may be of indices."""
    import numpy as np

    shape, dtype = [int(extent) for extent in kind.shape.values], str(kind.dtype)
    if dtype.startswith("float"):
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)
    return np.zeros(shape, dtype)


def prepared(model: Path, shapes: dict[str, list[int]]) -> Any:
    """The network as Tuneboard tunes it, whatever its file has of batch norms and computable constants."""
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


def with_records(mod: Any, target: Any, folder: Path) -> Any:
    """TVM's own pipeline. Without `cpu_weight_prepack` it would find no record of a function that has weights."""
    from tvm import relax

    return relax.pipeline.static_shape_tuning_pipeline(
        total_trials=0, target=target, work_dir=str(folder), cpu_weight_prepack=True
    )(mod)


def functions(mod: Any) -> dict[str, list[str]]:
    """Names of the functions that a record was applied to, and of the others."""
    found: dict[str, list[str]] = {"tuned": [], "untuned": []}
    for name, function in mod.functions.items():
        if type(function).__name__ == "PrimFunc" and not name.name_hint.endswith("_weight_prepack"):
            found["tuned" if function.attrs.get("tirx.is_scheduled") else "untuned"].append(str(name.name_hint))
    return found


def run(mod: Any, target: Any, inputs: list[Any]) -> tuple[Any, float]:
    """The first output, and seconds of one inference: of some measurements the least."""
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(relax.build(mod, target), tvm.cpu())
    arguments = [tvm.runtime.tensor(array) for array in inputs]
    output = machine["main"](*arguments)
    first = output if hasattr(output, "numpy") else output[0]
    evaluator = machine.time_evaluator("main", tvm.cpu(), number=1, repeat=5, min_repeat_ms=100)
    return first.numpy(), float(evaluator(*arguments).min)


def sentence(found: dict[str, Any]) -> str:
    tuned, untuned = len(found["tuned"]), found["untuned"]
    without = f" (without: {', '.join(untuned)})" if untuned else ""
    return (
        f"{tuned} of {tuned + len(untuned)} functions use a record{without}. "
        f"Tuned {found['tuned_s'] * 1e3:.3f} ms, untuned {found['untuned_s'] * 1e3:.3f} ms; "
        f"their outputs differ by {found['max_abs_error']:.2g} at most."
    )


if __name__ == "__main__":
    main()
