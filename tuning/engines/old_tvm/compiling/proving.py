"""Compares both libraries and benchmarks them: `PYTHON -m tuning.engines.old_tvm.compiling.proving` answers `wire.compiling.Prove`.

They are loaded from their files, as users load the library; on a remote device, through its tracker. As many threads run them as ran
the candidates of the run: TVM's own number, unless the target says how many cores there are.
"""

import contextlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

from tuning.engines.old_tvm.pipes import Message
from tuning.engines.old_tvm.refusing import Refused
from tuning.engines.proof import threads
from tuning.engines.proof.outputs import compared, drawn
from tuning.engines.proof.rounds import benchmarked

from .building import LIBRARY, MANIFEST, UNTUNED
from .serving import Pipe, serve

WITHOUT_ONNXRUNTIME = "ONNX Runtime is measured beside Tuneboard's own TVM only."


def prove(question: Message, pipe: Pipe) -> None:
    """Raises `Refused`, and whatever TVM does."""
    pipe.tell("loading")
    threads.run_network_on(question["target"].get("num-cores"))
    folder = Path(question["folder"])
    missing = [name for name in (LIBRARY, UNTUNED, MANIFEST) if not (folder / name).exists()]
    if missing:
        raise Refused(f"A file of the library is missing: {folder / missing[0]}. Compile the run again.")
    inputs = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["inputs"]
    given = drawn([(one["name"], one["shape"], one["dtype"]) for one in inputs], question["seed"])
    with _place(question) as load:
        tuned, untuned = (_Loaded(load(folder / name), given) for name in (LIBRARY, UNTUNED))
        pipe.tell("verifying")
        verdict = compared(tuned.outputs(), untuned.outputs())
        pipe.tell("benchmarking", 0.0)
        rounds = benchmarked(
            {"tuned": tuned.measure, "untuned": untuned.measure},
            question["benchmark_s"],
            lambda share: pipe.tell("benchmarking", share),
        )
    pipe.send(
        "proven",
        verified=verdict.right,
        max_abs_error=verdict.absolute,
        max_rel_error=verdict.relative,
        tolerance={"dtype": verdict.dtype, "relative": verdict.tolerance},
        rounds=rounds,
        onnxruntime=None,
        without_onnxruntime=WITHOUT_ONNXRUNTIME,
    )


class _Loaded:
    """A library on a device, with its inputs."""

    def __init__(self, loaded: Tuple[Any, Any], given: Dict[str, Any]) -> None:
        from tvm.contrib import graph_executor

        library, self._device = loaded
        self._machine = graph_executor.GraphModule(library["default"](self._device))
        self._machine.set_input(**given)

    def outputs(self) -> List[Any]:
        """The outputs of one inference."""
        self._machine.run()
        return [self._machine.get_output(nth).numpy() for nth in range(self._machine.get_num_outputs())]

    def measure(self, number: int) -> float:
        """Mean seconds of one inference."""
        evaluator = self._machine.module.time_evaluator("run", self._device, number=number, repeat=1)
        return float(evaluator().results[0])


@contextlib.contextmanager
def _place(question: Message) -> Iterator[Callable[[Path], Tuple[Any, Any]]]:
    """How to load a file: it gives the library and the device."""
    import tvm
    from tvm import rpc

    kind, remote = str(question["target"]["kind"]), question["remote"]
    name = "cpu" if kind == "llvm" else kind
    if remote is None:
        yield lambda path: (tvm.runtime.load_module(str(path)), tvm.device(name, 0))
        return
    session = _session(rpc, remote, question["cpu_s"])
    try:
        yield lambda path: (_uploaded(session, path), session.device(name, 0))
    finally:
        for file in (LIBRARY, UNTUNED):
            session.remove(file)


def _session(rpc: Any, remote: Message, seconds: int) -> Any:
    tracker = remote["tracker"]
    try:
        found = rpc.connect_tracker(tracker["host"], tracker["port"])
        return found.request(remote["key"], session_timeout=seconds)
    except Exception as error:
        where = "{}:{}".format(tracker["host"], tracker["port"])
        raise Refused(
            "The tracker at {} gives no device of the key {}: {}".format(where, remote["key"], error)
        ) from error


def _uploaded(session: Any, path: Path) -> Any:
    session.upload(str(path), path.name)
    return session.load_module(path.name)


if __name__ == "__main__":
    serve(prove, "This TVM can't run it")
