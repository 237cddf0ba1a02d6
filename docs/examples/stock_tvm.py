"""Builds and measures records downloaded from Tuneboard, using only stock TVM.

    unzip resnet-18_znver4_run-12_best-records.zip -d records
    python stock_tvm.py records

It needs the packages listed in docs/stock_tvm.md and the device that the records are for. For each workload it applies
the best record, builds the function and measures it as tuning does: on random data, with its weights already packed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description="Build and measure the best record of each workload, using stock TVM.")
    parser.add_argument("folder", type=Path, help="the folder with the two files from the zip")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of 100 ms each; the fastest counts")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    use_cores_of_target(options.folder)
    results = list(measure_all(options.folder, options.rounds))
    print(json.dumps(results, indent=1) if options.json else table(results))


def use_cores_of_target(folder: Path) -> None:
    """TVM reads the number of threads when it is imported. Its default is half of an x86 CPU's logical cores."""
    with (folder / "database_tuning_record.json").open() as file:
        _, (_, _, target, _) = json.loads(file.readline())
    if cores := target.get("num-cores"):
        os.environ["TVM_NUM_THREADS"] = str(cores)


def measure_all(folder: Path, rounds: int) -> Iterator[dict[str, Any]]:
    """For each workload with a valid record: its line, its arguments, and the recorded and measured latency."""
    from tvm.s_tir import meta_schedule as ms

    database = ms.database.JSONDatabase(work_dir=str(folder), allow_missing=False)
    for line, text in enumerate((folder / "database_workload.json").read_text().splitlines()):
        workload = ms.database.Workload.from_json(json.loads(text))
        for record in database.get_top_k(workload, 1):
            schedule = ms.tir_integration.compile_tir(database, workload.mod, record.target)
            args = [as_json(info) for info in record.args_info]
            recorded = [float(seconds) for seconds in record.run_secs]
            yield {
                "workload": line,
                "args": [f"{dtype}{tuple(shape)}" for _, dtype, shape in args],
                "recorded_s": sum(recorded) / len(recorded),
                "measured_s": measure(schedule, record.target, args, rounds),
            }


def as_json(info: Any) -> list[Any]:
    """Kind, dtype and shape of an argument as Python objects."""
    kind, dtype, shape = info.as_json()
    return [str(kind), str(dtype), [int(extent) for extent in shape]]


def measure(schedule: Any, target: Any, args: list[Any], rounds: int) -> float:
    """Seconds per execution: the minimum of several measurements, since other load can only add to them."""
    import tvm
    from tvm.s_tir.meta_schedule.builder.local_builder import default_build
    from tvm.s_tir.meta_schedule.runner.local_runner import default_alloc_argument

    # As in tuning, this also removes the block that packs weights, which a network does only once.
    built = default_build(schedule.mod, target, None)
    device = tvm.device("cpu" if target.kind.name == "llvm" else str(target.kind.name))
    (values,) = default_alloc_argument(device, args, 1)
    evaluator = built.time_evaluator("main", device, number=1, repeat=rounds, min_repeat_ms=100)
    return float(evaluator(*values).min)


def table(results: list[dict[str, Any]]) -> str:
    lines = ["workload    recorded    measured   ratio  arguments"]
    for result in results:
        recorded, now = result["recorded_s"] * 1e6, result["measured_s"] * 1e6
        lines.append(
            f"{result['workload']:8d} {recorded:8.2f} µs {now:8.2f} µs {now / recorded:7.2f}  {' '.join(result['args'])}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
