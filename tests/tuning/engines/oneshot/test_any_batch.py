"""Real libraries that take any batch, and what is asked of their samples."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.tuning.engines.compiling import best, build, prove, target_of
from tests.tuning.engines.running import Engine, start
from tuning.engines.oneshot.comparing.judging import Judge
from tuning.engines.wire.compiling import LIBRARY, MANIFEST, OtherBatch, Prove, Proven
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import NetworkSpec

OWN, OTHER = 4, 1


def mlp(batch: int) -> NetworkSpec:
    return NetworkSpec("mlp", {"batch": batch, "dtype": "float32"})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A library with the records of a run of each batch, its folder, and the target."""
    folder = tmp_path_factory.mktemp("any")
    engines = {}
    for batch in (OWN, OTHER):
        asked = start(folder / f"work{batch}", network=mlp(batch), trials_budget=4)
        with Engine(asked, folder / f"console{batch}.log") as engine:
            engine.to_the_end()
        engines[batch] = engine
    target = target_of(engines[OWN])
    others = [OtherBatch(OTHER, mlp(OTHER), best(engines[OTHER], run=8))]
    built = build(mlp(OWN), target, best(engines[OWN]), folder / "library", batch=OWN, others=others)
    return SimpleNamespace(built=built, folder=folder / "library", target=target)


@pytest.fixture(scope="module")
def proven(made: Any) -> Proven:
    return prove(mlp(OWN), made.target, made.folder, batch=OWN, others={OTHER: mlp(OTHER)})


@pytest.mark.tvm
@pytest.mark.filterwarnings("default")  # Warnings are TVM's own.
class TestReal:
    def test_each_batch_has_its_own_records(self, made: Any) -> None:
        assert [one.batch for one in made.built.batches] == [OTHER, OWN]
        assert [{used.run for used in one.used} for one in made.built.batches] == [{8}, {7}]
        assert [one.untuned for one in made.built.batches] == [[], []]
        assert [one.inputs[0].shape for one in made.built.batches] == [[1, 784], [4, 784]]
        assert (made.built.inputs, made.built.used) == (made.built.batches[1].inputs, made.built.batches[1].used)
        manifest = json.loads((made.folder / MANIFEST).read_bytes())
        assert [(one["batch"], one["entry"]) for one in manifest["batches"]] == [(1, "main_1"), (4, "main_4")]

    def test_each_batch_is_verified_and_benchmarked(self, proven: Proven) -> None:
        assert proven.verified
        assert [one.batch for one in proven.batches] == [OTHER, OWN]
        for one in proven.batches:
            assert one.max_rel_error is not None
            assert one.max_rel_error < 1e-5
            assert len(one.rounds["tuned"]) >= 3
        assert proven.rounds == proven.batches[1].rounds

    def test_the_profile_is_that_of_the_runs_own_batch(self, proven: Proven, made: Any) -> None:
        assert proven.profile
        assert {part.function for part in proven.profile.functions} == {one.function for one in made.built.used}

    def test_it_takes_batches_that_nobody_tuned(self, made: Any) -> None:
        import tvm
        from tvm import relax

        machine = relax.VirtualMachine(tvm.runtime.load_module(str(made.folder / LIBRARY)), tvm.cpu())
        x = np.random.default_rng(1).standard_normal((11, 784), dtype="float32")
        whole = machine["main"](tvm.runtime.tensor(x)).numpy()
        each = [machine["main"](tvm.runtime.tensor(x[nth : nth + 1])).numpy() for nth in range(11)]
        assert whole.shape == (11, 10)
        np.testing.assert_allclose(whole, np.concatenate(each), rtol=1e-4, atol=1e-4)


class Library:
    """Computes with NumPy."""

    def __init__(self, compute: Any) -> None:
        self.compute = compute

    def on(self, given: dict[str, Any]) -> Any:
        return SimpleNamespace(outputs=lambda: [self.compute(*given.values())])


def judge(tuned: Any, untuned: Any) -> Any:
    question = Prove(network=mlp(2), target={}, folder="", seed=1, benchmark_s=0.0, memory_mb=1, cpu_s=1)
    return Judge(Library(tuned), Library(untuned), question, None)


def given(*batches: int) -> dict[int | None, Any]:
    x = np.random.default_rng(1).standard_normal((max(batches), 3)).astype("float32")
    return {batch: {"x": x[:batch], "scale": np.ones(3, "float32")} for batch in batches}


def test_padded_batches_and_pieces_are_compared_with_samples_of_the_largest() -> None:
    sizes: list[int] = []

    def tuned(x: Any, scale: Any) -> Any:
        sizes.append(len(x))
        return x * scale

    assert all(one.right for one in judge(tuned, lambda x, scale: x * scale).verdicts(given(2, 8)))
    assert sorted(sizes) == [1, 2, 7, 8, 9]


@pytest.mark.parametrize("wrong", [1, 7, 9])
def test_a_batch_that_is_padded_wrongly_is_found(wrong: int) -> None:
    def tuned(x: Any, scale: Any) -> Any:
        return x * scale + (len(x) == wrong)

    verdicts = judge(tuned, lambda x, scale: x * scale).verdicts(given(2, 8))
    assert [one.right for one in verdicts] == [True, True, False]


def test_samples_that_depend_on_each_other_are_refused() -> None:
    def centred(x: Any, scale: Any) -> Any:
        return (x - x.mean(axis=0)) * scale

    with pytest.raises(Refused, match="outputs of a batch of 2 differ from those of the same samples in a batch of 8"):
        judge(centred, centred).verdicts(given(2, 8))
