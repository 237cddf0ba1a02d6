"""Reads mutated models as the sandboxed process does, thousands of them: `python -m tests.faults.reading SEED FIRST COUNT FOLDER`.

Each batch has a process forked from this one, which has TVM loaded. If a model ends it, the next batch begins with the
next model. One JSON line per model that didn't get a plain answer, and a last one with the totals go to stdout.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from onnx import helper

from tests import models
from tests.faults.mutations import mutated
from tuning.engines.oneshot import inspecting, serving
from tuning.engines.wire.inspecting import Question
from tuning.engines.wire.protocol import ModelFile, NetworkSpec

BATCH = 200
MEMORY = 6 << 30
MODEL_S = 20
"""Processor time that one model may take."""
LONGEST_TEXT = 2000


def corpus() -> list[bytes]:
    """Files that the tests upload, of both formats."""
    onnx_files = [models.convnet(), models.convnet("N", size=8), _control_flow(), _shape_arithmetic()]
    modules = [models.relax_json(model) for model in onnx_files[:2]]
    return [*(model.SerializeToString() for model in onnx_files), *modules]


def case(seed: int, number: int, files: list[bytes]) -> bytes:
    """The mutated model of this number, always the same for a seed."""
    dice = random.Random(f"{seed}.{number}")
    file = files[number % len(files)]
    return mutated(dice, file, dice.choice(files))


def main() -> None:
    seed, first, count, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    _load()
    files, totals = corpus(), Counter[str]()
    number, end = first, first + count
    while number < end:
        number = _batch(seed, range(number, min(end, number + BATCH)), files, folder, totals)
    print(json.dumps({"totals": totals}))  # noqa: T201


def _batch(seed: int, numbers: range, files: list[bytes], folder: Path, totals: Counter[str]) -> int:
    """Fork a process that reads these models; return the number of the first one that it didn't get to."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _read_all(seed, numbers, files, folder, writing)
    os.close(writing)
    number = numbers.start
    with os.fdopen(reading) as outcomes:
        for line in outcomes:
            outcome = json.loads(line)
            totals[outcome["outcome"]] += 1
            if outcome["outcome"] not in ("accepted", "refused"):
                print(json.dumps({"number": number, **outcome}), flush=True)  # noqa: T201
            number += 1
    _, status = os.waitpid(child, 0)
    if number == numbers.stop:
        return number
    how = os.waitstatus_to_exitcode(status)
    name = (
        "too long" if how == -signal.SIGXCPU else f"crashed: {signal.Signals(-how).name}" if how < 0 else f"exit {how}"
    )
    totals[name] += 1
    (folder / f"crash-{number}").write_bytes(case(seed, number, files))
    print(json.dumps({"number": number, "outcome": name}), flush=True)  # noqa: T201
    return number + 1


def _read_all(seed: int, numbers: range, files: list[bytes], folder: Path, pipe: int) -> NoReturn:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(folder)
    for number in numbers:
        used = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used + MODEL_S, resource.RLIM_INFINITY))
        outcome = _outcome(case(seed, number, files), folder)
        os.write(pipe, json.dumps(outcome).encode() + b"\n")
    os._exit(0)


def _outcome(data: bytes, folder: Path) -> dict[str, Any]:
    """What the site would answer."""
    path = folder / f"model-{os.getpid()}"
    path.write_bytes(data)
    kind: Any = "irmodule" if data[:64].lstrip().startswith(b"{") else "onnx"
    dims = {"N": 1} if b"N" in data and kind == "onnx" else {}
    question = Question(
        network=NetworkSpec("uploaded", file=ModelFile(kind, str(path), dims)),
        target=None,
        memory_mb=MEMORY >> 20,
        cpu_s=MODEL_S,
    )
    try:
        inspecting.inspect(question, _Pipe())
    except Exception as error:  # noqa: BLE001  as `serving.serve`
        refusal = serving._refusal(error, question.memory_mb, "TVM can't prepare it")
        foreseen = "refused" if refusal.error.strip() and len(refusal.error) <= LONGEST_TEXT else "unclear"
        return {"outcome": foreseen} | ({"text": refusal.error[:3000]} if foreseen == "unclear" else {})
    return {"outcome": "accepted"}


class _Pipe(serving.Pipe):
    """Nobody listens."""

    def __init__(self) -> None:
        self._fd = os.open(os.devnull, os.O_WRONLY)

    def __del__(self) -> None:
        os.close(self._fd)


def _load() -> None:
    """Load TVM once for all batches, by reading a model."""
    with suppress(Exception):
        _outcome(corpus()[0], Path(sys.argv[4]))


def _control_flow() -> Any:
    """An operator with graphs in its attributes, and a function."""
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["b"])], "branch", [], [helper.make_tensor_value_info("b", 1, [4])]
    )
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    nodes = [
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        helper.make_node("Twice", ["i"], ["y"], domain="own"),
    ]
    model = models.onnx_model(nodes, {"x": [4]}, {"y": [4]}, c=np.array(True))
    model.functions.append(twice)
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def _shape_arithmetic() -> Any:
    """A reshape by a shape that is computed."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "zeros"], ["first"]),
        helper.make_node("Concat", ["first", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["x", "flat"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"]),
    ]
    integers = {"zero": np.array(0), "zeros": np.array([0]), "rest": np.array([-1])}
    return models.onnx_model(nodes, {"x": [2, 3, 4]}, {"y": [2, 12]}, **integers)


if __name__ == "__main__":
    main()
