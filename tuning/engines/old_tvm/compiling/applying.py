"""Applies records while TVM builds a network, and notes which function or layer got which.

TVM asks its dispatch context for each. Where that has no record, TVM takes a default schedule without a word.
"""

import contextlib
import importlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

from tuning.engines.old_tvm import autotvm as autotvm_engine
from tuning.engines.old_tvm import candidates
from tuning.engines.old_tvm.loading import in_one_line
from tuning.engines.old_tvm.pipes import Message
from tuning.engines.old_tvm.refusing import Refused

READ = {"auto_scheduler": candidates.read_record, "autotvm": autotvm_engine.read_record}
"""By engine: TVM's `MeasureInput` and `MeasureResult` of a record. Raises any error."""
Pairs = List[Tuple[Any, Any]]


class Applied:
    """Which functions or layers were built, and with which records."""

    def __init__(self) -> None:
        self._found: Dict[Any, Tuple[str, Optional[int]]] = {}

    def note(self, key: Any, name: str, index: Optional[int]) -> None:
        """What `key` identifies is built with the record of that index, or without one."""
        self._found.setdefault(key, (name, index))

    def used(self) -> List[Tuple[str, int]]:
        """Names, and the indices of their records."""
        return [(name, index) for name, index in self._found.values() if index is not None]

    def untuned(self) -> List[str]:
        """Names of what has no record."""
        return [name for name, index in self._found.values() if index is None]


@contextlib.contextmanager
def applying(question: Message) -> Iterator[Applied]:
    """What TVM builds meanwhile is built with the question's records. Raises `Refused` for one that can't be read."""
    engine, applied = question["engine"], Applied()
    pairs = [_read(engine, record) for record in question["records"]]
    context = _auto_scheduler(pairs, applied) if engine == "auto_scheduler" else _autotvm(pairs, applied)
    with context:
        yield applied


def _read(engine: str, record: Message) -> Tuple[Any, Any]:
    try:
        given, result = READ[engine](record["text"])
    except Exception as error:
        trial, run, reason = record["trial"], record["run"], in_one_line(error)
        raise Refused(f"This TVM can't read the record of trial {trial} of run {run}: {reason}") from error
    return given, result


def _auto_scheduler(pairs: Pairs, applied: Applied) -> Any:
    """TVM's context, which is asked for each fused function by the key of its workload."""
    from tvm.auto_scheduler.dispatcher import ApplyHistoryBest
    from tvm.auto_scheduler.relay_integration import TracingEnvironment

    index_of = {str(given.task.workload_key): index for index, (given, _) in enumerate(pairs)}

    class Noting(ApplyHistoryBest):  # type: ignore[misc]
        def query(self, target: Any, workload_key: str, *rest: Any) -> Any:
            state = super().query(target, workload_key, *rest)
            if state is not None:
                self._last = (state, index_of.get(workload_key))
            if TracingEnvironment.current is None:  # Otherwise TVM only looks which layouts of weights change.
                name = str(rest[2]) if len(rest) > 2 else workload_key  # TVM 0.8 doesn't say.
                applied.note(name, name, None if state is None else index_of.get(workload_key))
            return state

        def update(self, target: Any, workload_key: str, state: Any) -> None:
            """The layout of weights changes, and with it the workload that has just been asked for."""
            last, index = self._last
            if last is state and index is not None:
                index_of[workload_key] = index
            super().update(target, workload_key, state)

    return Noting(pairs)


@contextlib.contextmanager
def _autotvm(pairs: Pairs, applied: Applied) -> Iterator[None]:
    """TVM's context, which is asked for each layer and template. TVM builds the fastest template of a layer."""
    from tvm import autotvm

    index_of = {id(given.config): index for index, (given, _) in enumerate(pairs)}
    kept = []  # So that no other configuration gets the same id.
    compiler = _te_compiler()
    stock = compiler.select_implementation

    def select_implementation(*args: Any, **kwargs: Any) -> Any:
        chosen, outputs = stock(*args, **kwargs)
        workload = autotvm.task.get_workload(outputs)
        if workload is not None:
            # A layer whose layout changes is asked for twice, and keeps its configuration.
            config = autotvm.task.DispatchContext.current.query(args[4], workload)
            kept.append(config)
            applied.note(id(config), _layer(workload), index_of.get(id(config)))
        return chosen, outputs

    compiler.select_implementation = select_implementation
    try:
        with autotvm.apply_history_best(pairs):
            yield
    finally:
        compiler.select_implementation = stock


def _te_compiler() -> Any:
    """TVM's module that chooses among the templates of a layer."""
    for name in ("te_compiler", "compile_engine"):
        with contextlib.suppress(ImportError):
            module = importlib.import_module("tvm.relay.backend." + name)
            if hasattr(module, "select_implementation"):
                return module
    raise Refused("This TVM doesn't tell which templates it builds: it may be older than 0.8.")


def _layer(workload: Any) -> str:
    """The template, the shapes of data and weights, and what else distinguishes layers of the same shapes: the strides."""
    template, *args = workload
    shapes = ["×".join(map(str, arg[1])) for arg in args if isinstance(arg, tuple) and arg and arg[0] == "TENSOR"]
    strides = [arg for arg in args if isinstance(arg, tuple) and arg and isinstance(arg[0], int)][:1]
    told = ["strides " + "×".join(map(str, one)) for one in strides if set(one) != {1}]
    return "{} ({})".format(template, ", ".join(shapes + told))
