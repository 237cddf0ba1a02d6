"""Builds a record's schedule as a run does, to show what is made of it: lowered TIR, then LLVM IR and assembly, or CUDA C++, PTX and SASS.

`python -m tuning.engines.oneshot.generating` answers a `Question` with one `Generated` for each record, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from tuning.engines.assembly import Needs, hot_loop, needs, occupancy
from tuning.engines.targets import kernels, vector_math
from tuning.engines.wire.errors import Refused, in_one_line
from tuning.engines.wire.showing import Generated, Kernel, Kernels, Listing, Question
from tuning.engines.wire.target_fields import TargetRefused

from . import serving
from .showing import scheduled

TRIPLE = re.compile(r'^target triple = "([^"]*)"', re.MULTILINE)
MOST_CHARACTERS = 16 << 20
"""Of one listing."""


def generate(text: str, step: Callable[[str], None] = lambda _text: None) -> Generated:
    """The listings of a record. Raises `Refused`."""
    mod = _without_packing(scheduled(text).mod)
    target = _target(text)
    step("Lowering the schedule")
    lowered = _lowered(mod, target)
    step("Building the schedule")
    made = _cuda(mod, lowered, target, step) if target.kind.name == "cuda" else Generated(_llvm(mod, target))
    listings = [Listing("tir", str(lowered.script())), *made.listings]
    if any(len(one.text) > MOST_CHARACTERS for one in listings):
        raise Refused(f"What is made of the schedule has more than {MOST_CHARACTERS >> 20} million characters.")
    return msgspec.structs.replace(made, listings=listings)


def _target(text: str) -> Any:
    """The record's target. Raises `Refused`."""
    import tvm

    from tuning.engines import records

    try:
        return tvm.target.Target(records.checked_target(records.check(text).target))
    except TargetRefused as refused:
        raise Refused(f"Code can't be generated for the record's target. {refused}") from refused


def _without_packing(mod: Any) -> Any:
    """As a measured candidate is built: weights are packed once, when the network is compiled."""
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    return RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)


def _lowered(mod: Any, target: Any) -> Any:
    """What TVM's code generators get."""
    import tvm

    pipeline, _, _ = tvm.tirx.get_default_tir_pipeline(target)
    return pipeline(tvm.tirx.transform.BindTarget(_with_host(target))(mod))


def _with_host(target: Any) -> Any:
    import tvm

    if target.host is not None:
        return target
    return target.with_host(target if target.kind.name == "llvm" else tvm.target.Target("llvm"))


def _llvm(mod: Any, target: Any) -> list[Listing]:
    if target.kind.name != "llvm":
        return []
    built = _built(mod, target)
    module, assembly = str(built.inspect_source("ll")), str(built.inspect_source("asm"))
    triple = TRIPLE.search(module)
    return [Listing("llvm", module), Listing("asm", assembly, hot_loop(assembly, triple[1] if triple else ""))]


def _cuda(mod: Any, lowered: Any, target: Any, step: Callable[[str], None]) -> Generated:
    """As far as the compilers that there are take it: the source is TVM's own."""
    with kernels.without_compiling():
        sources = [str(module.inspect_source()) for module in _built(mod, target).imports]
    listings, arch = [Listing("cuda", source) for source in sources], str(target.attrs["arch"])
    try:
        step("Compiling the kernels")
        made = [kernels.ptx(source, target) for source in sources]
        listings += [Listing("ptx", text) for text in made]
        step("Assembling the kernels")
        assembled = [kernels.assembled(text, arch) for text in made]
    except Refused as refused:
        return Generated(listings, missing=[str(refused)])
    listings += [Listing("sass", one.sass) for one in assembled if one.sass]
    launched = kernels.launches(lowered)
    found = [
        _kernel(name, needed, launched[name], arch)
        for one in assembled
        for name, needed in needs(one.report).items()
        if name in launched
    ]
    missing = [] if all(one.sass for one in assembled) else [kernels.NO_SASS]
    return Generated(listings, Kernels(kernels.assembler(), arch, found), missing)


def _kernel(name: str, needed: Needs, launch: kernels.Launch, arch: str) -> Kernel:
    shared = needed.shared + launch.dynamic_shared_bytes
    return Kernel(
        name,
        launch.blocks,
        launch.threads,
        needed.registers,
        shared,
        needed.stack,
        needed.spill_stores,
        needed.spill_loads,
        occupancy(arch, launch.threads, needed.registers, shared),
    )


def _built(mod: Any, target: Any) -> Any:
    import tvm

    vector_math.use()
    try:
        return tvm.tirx.build(mod, target=target)
    except Exception as error:
        raise Refused(f"TVM can't build it: {in_one_line(error)}") from error


def _answer(question: Question, pipe: serving.Pipe) -> None:
    pipe.step("Loading TVM")
    import tvm  # noqa: F401

    for text in question.records:
        pipe.send(generate(text, pipe.step))


def main() -> None:
    serving.serve(Question, _answer, "TVM can't generate its code")


if __name__ == "__main__":
    main()
