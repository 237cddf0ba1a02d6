"""Shows a record's schedule: its trace as code, its decisions, and the TensorIR that results.

`python -m tuning.engines.oneshot.showing` answers a `Question` with one `Shown` for each record, in their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from tuning.engines.targets import intrinsics
from tuning.engines.wire.errors import Refused, in_one_line
from tuning.engines.wire.showing import Decision, Question, Shown
from tuning.records import RecordRefused

from . import serving

PACKING = "meta_schedule.layout_rewrite_preproc"
"""The annotation of blocks that pack weights."""
PLACES = {-1: "in loops of its own", -2: "inlined"}
"""Decisions of `sample_compute_location` that aren't the index of a loop."""


class _Observer:
    """Watches a trace being applied. Just before an instruction runs, the loops and blocks that it is about still have their names."""

    def __init__(self, schedule: Any) -> None:
        self.decisions: list[Decision] = []
        self._schedule = schedule
        # By the hashes of random variables, because `==` between them makes an expression.
        self._block_of: dict[int, str] = {}
        self._decided_by: dict[int, int] = {}
        """By variable, the index of the decision about it."""

    def __call__(self, inst: Any, inputs: Any, attrs: Any, decision: Any) -> Any:
        """TVM's `decision_provider`, which leaves the decision as it is."""
        kind = str(inst.kind.name)
        if decision is not None:
            self._decided_by |= {hash(one): len(self.decisions) for one in inst.outputs}
            self.decisions.append(self._described(kind, inst, inputs, attrs, decision))
        elif kind == "GetLoops":
            self._block_of |= dict.fromkeys(map(hash, inst.outputs), self._name(inputs[0]))
        elif kind == "Annotate":
            self._complete(inst.inputs[1], lambda _: {"of": str(attrs[0]), "block": self._name(inputs[0])})
        elif kind == "Split":
            loop = {"of": self._name(inputs[0]), "block": self._block_of.get(hash(inst.inputs[0]))}
            for factor in inst.inputs[1:]:
                self._complete(factor, lambda _: {**loop, "extent": int(self._schedule.get(inputs[0]).extent)})
        elif kind in ("ComputeAt", "ReverseComputeAt"):
            self._complete(inst.inputs[1], lambda place: self._located(place, inputs[1]))
        return decision

    def _described(self, kind: str, inst: Any, inputs: Any, attrs: Any, decision: Any) -> Decision:
        name = _snake(kind)
        if kind in ("SamplePerfectTile", "SamplePartitionedTile"):
            extent, factors = int(self._schedule.get(inputs[0]).extent), [int(factor) for factor in decision]
            block = self._block_of.get(hash(inst.inputs[0]))
            return Decision(name, self._name(inputs[0]), block, extent, factors, " × ".join(map(str, factors)), [])
        if kind == "SampleCategorical":
            among = [str(value) for value in attrs[0]]
            return Decision(name, "", None, None, int(decision), among[int(decision)], among)
        if kind == "SampleComputeLocation":
            place = int(decision)
            return Decision(name, self._name(inputs[0]), None, None, place, PLACES.get(place, f"loop {place}"), [])
        return Decision(name, "", None, None, str(decision), str(decision), [])

    def _located(self, place: Decision, loop: Any) -> dict[str, str]:
        return {"choice": f"in loop {self._name(loop)}"} if place.decision >= 0 else {}

    def _complete(self, variable: Any, more: Callable[[Decision], dict[str, Any]]) -> None:
        """Add to a decision what is known only where its variable is used."""
        nth = self._decided_by.get(hash(variable))
        if nth is not None:
            self.decisions[nth] = msgspec.structs.replace(self.decisions[nth], **more(self.decisions[nth]))

    def _name(self, variable: Any) -> str:
        """The name of a block or a loop."""
        found = self._schedule.get(variable)
        return str(found.loop_var.name if hasattr(found, "loop_var") else found.name_hint)


def show(text: str) -> Shown:
    """Apply the record to the function that it contains. Raises `Refused`."""
    from tvm.s_tir.schedule import Schedule

    mod, applied = _applied(text)
    schedule, trace = Schedule(mod), applied.trace
    observer = _Observer(schedule)
    trace.apply_to_schedule(schedule, remove_postproc=False, decision_provider=observer)
    tensorir = str(schedule.mod.script())
    return Shown(str(trace), observer.decisions, tensorir, PACKING in tensorir)


def scheduled(text: str) -> Any:
    """TVM's `Schedule` of the record. Raises `Refused`."""
    return _applied(text)[1]


def _applied(text: str) -> tuple[Any, Any]:
    """The function, and the schedule once the trace was applied to it. Raises `Refused`."""
    from tvm.s_tir.schedule import Schedule, Trace

    mod, (instructions, decisions) = _read(text)
    # By default TVM renders the whole function into the error, and its own reader of records renders nothing.
    schedule = Schedule(mod, error_render_level="fast")
    try:
        Trace.apply_json_to_schedule([instructions, decisions], schedule)
    except Exception as error:
        kind, _inputs, attrs, _outputs = instructions[len(schedule.trace.insts)]
        raise Refused(f"TVM can't apply its {kind} {json.dumps(attrs)}: {_reason(error)}") from error
    return mod, schedule


def _read(text: str) -> tuple[Any, list[Any]]:
    """The function, and the trace's instructions and decisions as written. Raises `Refused`."""
    from tuning.engines import records

    try:
        record = records.check(text)
        if any(kind == "Tensorize" for kind, *_ in record.trace[0]):
            intrinsics.load(intrinsics.kind_for(str(record.target.get("kind", "any")), record.target))
        return records.function_of(record), record.trace
    except RecordRefused as refused:
        raise Refused(f"It can't be used: {refused}.") from refused


def _reason(error: Exception) -> str:
    """TVM begins the text of a schedule's error with a class name of its own."""
    kind, _, text = in_one_line(error).partition(": ")
    return f"{kind}: {text.removeprefix('ScheduleError: ')}"


def _snake(kind: str) -> str:
    """`sample_perfect_tile` for `SamplePerfectTile`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind).lstrip("_")


def _answer(question: Question, pipe: serving.Pipe) -> None:
    pipe.step("Loading TVM")
    import tvm  # noqa: F401

    for text in question.records:
        pipe.step("Loading TVM's tensor intrinsics" if '"Tensorize"' in text else "Applying the schedule")
        pipe.send(show(text))


def main() -> None:
    serving.serve(Question, _answer, "TVM can't show it")


if __name__ == "__main__":
    main()
