"""Builds a record's schedule as a run does, to show what is made of it: lowered TIR, then LLVM IR and assembly, or CUDA C++.

`python -m tuning.engines.oneshot.generating` answers a `Question` with one `Generated` for each record, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from tuning.engines.assembly import hot_loop
from tuning.engines.targets import cuda, vector_math
from tuning.engines.wire.errors import Refused, in_one_line
from tuning.engines.wire.showing import Generated, Listing, Question

from . import serving
from .showing import scheduled

TRIPLE = re.compile(r'^target triple = "([^"]*)"', re.MULTILINE)
MOST_CHARACTERS = 16 << 20
"""Of one listing."""


def generate(text: str, step: Callable[[str], None] = lambda _text: None) -> Generated:
    """The listings of a record. Raises `Refused`."""
    import tvm

    _, (_, _, described, _) = msgspec.json.decode(text, type=tuple[Any, tuple[Any, Any, dict[str, Any], Any]])
    target = tvm.target.Target(described)
    mod = _without_packing(scheduled(text).mod)
    step("Lowering the schedule")
    listings = [Listing("tir", _lowered(mod, target))]
    step("Building the schedule")
    listings += _cuda(mod, target) if target.kind.name == "cuda" else _llvm(mod, target)
    if any(len(one.text) > MOST_CHARACTERS for one in listings):
        raise Refused(f"What is made of the schedule has more than {MOST_CHARACTERS >> 20} million characters.")
    return Generated(listings)


def _without_packing(mod: Any) -> Any:
    """As a measured candidate is built: weights are packed once, when the network is compiled."""
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    return RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)


def _lowered(mod: Any, target: Any) -> str:
    """What TVM's code generators get."""
    import tvm

    pipeline, _, _ = tvm.tirx.get_default_tir_pipeline(target)
    return str(pipeline(tvm.tirx.transform.BindTarget(_with_host(target))(mod)).script())


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


def _cuda(mod: Any, target: Any) -> list[Listing]:
    """The source of its kernels, which is there only once a compiler of CUDA has taken it."""
    if cuda.compiler() is None:
        return []
    cuda.choose_compiler()
    return [Listing("cuda", str(kernels.inspect_source())) for kernels in _built(mod, target).imports]


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
