"""Functions that are written as TVMScript."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.tuning.engines.networks.test_algorithms import compute, cpu, two_branches

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
DOUBLED = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def doubled(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("double"):
            vi = T.axis.remap("S", [i])
            y[vi] = x[vi] * T.float32(2)
""".splitlines()


def test_the_same_function_is_parsed_once() -> None:
    from tuning.engines.networks.tensorir import parsed

    assert parsed(DOUBLED) is parsed(iter(DOUBLED))
    assert parsed([line.replace("(4,)", "(8,)") for line in DOUBLED]) is not parsed(DOUBLED)


def test_what_becomes_of_a_function_does_not_change_it() -> None:
    """A network's functions are fused, scheduled and lowered, those of equal layers differently."""
    from tvm.script import from_source
    from tvm_ffi import structural_equal

    from tuning.engines.networks import algorithms
    from tuning.engines.networks.tensorir import parsed

    made: list[tuple[list[str], Any]] = []

    def kept(lines: Iterable[str]) -> Any:
        text = list(lines)
        made.append((text, parsed(text)))
        return made[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuning.engines.networks.winograd.functions.parsed", kept)
        mod = algorithms.chosen(two_branches(), cpu(), lambda _other, _direct: True, in_parts=True)
    compute(mod)
    assert len({id(one) for _, one in made}) == 1
    assert len(made) > 1
    for text, one in made:
        assert structural_equal(one, from_source("\n".join(text)))
