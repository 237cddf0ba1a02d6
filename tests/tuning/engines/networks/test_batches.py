"""One module that takes any batch, of modules for several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuning.engines.wire.compiling import entry
from tuning.engines.wire.errors import Refused

pytestmark = pytest.mark.tvm
RANDOM = np.random.default_rng(1)
WEIGHTS = RANDOM.standard_normal((16, 256), dtype="float32"), RANDOM.standard_normal((256, 10), dtype="float32")
TARGET = {"kind": "llvm", "num-cores": 1}


def network(batch: int, outputs: str = "one") -> Any:
    """Two layers of which the input `bias` has no batch; `outputs` is `one`, `two`, `summed` over the batch, or `turned`."""
    from tvm import relax
    from tvm.target import Target

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((batch, 16), "float32"))
    bias = relax.Var("bias", relax.TensorType((256,), "float32"))
    with builder.function("main", [x, bias]):
        with builder.dataflow():
            hidden = builder.emit(relax.op.add(relax.op.matmul(x, relax.const(WEIGHTS[0])), bias))
            found = builder.emit(relax.op.matmul(hidden, relax.const(WEIGHTS[1])))
            made = {
                "one": lambda: found,
                "two": lambda: relax.Tuple([found, hidden]),
                "summed": lambda: relax.op.sum(found, axis=0),
                "turned": lambda: relax.op.permute_dims(found, (1, 0)),
            }[outputs]()
            output = builder.emit_output(builder.emit(made))
        builder.emit_func_output(output)
    with Target(TARGET):
        return relax.get_pipeline("zero")(builder.get())


def built(path: Path, outputs: str = "one", batches: tuple[int, ...] = (4, 1, 8)) -> Any:
    """The virtual machine of a library for these batches."""
    import tvm
    from tvm import relax
    from tvm.target import Target

    from tuning.engines.networks.batches import joined

    mod = joined({batch: network(batch, outputs) for batch in batches})
    relax.build(mod, Target(TARGET)).export_library(str(path))
    return relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())


def computed(machine: Any, x: Any, bias: Any, name: str = "main") -> list[Any]:
    import tvm

    found = machine[name](tvm.runtime.tensor(x), tvm.runtime.tensor(bias))
    return [one.numpy() for one in ([found] if hasattr(found, "numpy") else found)]


@pytest.mark.parametrize("outputs", ["one", "two"])
def test_any_batch_is_computed(tmp_path: Path, outputs: str) -> None:
    """Exactly, padded, in pieces, and even without any sample."""
    machine, bias = built(tmp_path / f"{outputs}.so", outputs), RANDOM.standard_normal(256, dtype="float32")
    for batch in (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 21):
        x = RANDOM.standard_normal((batch, 16), dtype="float32")
        hidden = x @ WEIGHTS[0] + bias
        found = computed(machine, x, bias)
        for one, other in zip(found, [hidden @ WEIGHTS[1], hidden], strict=False):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3, err_msg=f"batch {batch}")
        assert len(found) == (2 if outputs == "two" else 1)


def test_each_batch_has_an_entry_of_its_own(tmp_path: Path) -> None:
    machine, bias = built(tmp_path / "library.so"), np.zeros(256, "float32")
    x = RANDOM.standard_normal((8, 16), dtype="float32")
    (own,), (any_batch,) = computed(machine, x, bias, entry(8)), computed(machine, x, bias)
    np.testing.assert_array_equal(own, any_batch)
    assert (entry(8), entry(None)) == ("main_8", "main")


def test_weights_are_in_it_once(tmp_path: Path) -> None:
    built(tmp_path / "library.so", batches=(1, 2, 4))
    library = (tmp_path / "library.so").read_bytes()
    assert [library.count(weights.tobytes()) for weights in WEIGHTS] == [1, 1]


def test_the_first_batch_keeps_the_names_of_its_functions() -> None:
    from tuning.engines.networks.batches import joined

    names = {str(name.name_hint) for name in network(4).functions} - {"main"}
    assert names < {str(name.name_hint) for name in joined({4: network(4), 1: network(1)}).functions}


@pytest.mark.parametrize(
    ("outputs", "why"),
    [
        ("summed", "output 0 has the same shape for all batches, so its samples aren't computed apart"),
        ("turned", r"the first axis of output 0 isn't its batch \(10×4 for batch 4, 10×1 for batch 1\)"),
    ],
)
def test_the_batch_must_be_the_first_axis_of_all_outputs(outputs: str, why: str) -> None:
    from tuning.engines.networks.batches import joined

    with pytest.raises(Refused, match=why):
        joined({batch: network(batch, outputs) for batch in (4, 1)})
