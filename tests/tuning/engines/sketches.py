"""Targets whose CPUs have different registers, and what comes of the sketches of a design space."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuning.engines.wire.options.meta_schedule import Options

AVX512, AVX2 = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}, {"kind": "llvm", "mcpu": "haswell", "num-cores": 2}
ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 2}


def design_space(mod: Any, target: dict[str, Any], given: Options) -> tuple[list[Any], Any]:
    """A task's sketches, and TVM's context of it."""
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    from tuning.engines.meta_schedule.spaces import create_space
    from tuning.engines.targets import intrinsics

    intrinsics.load("llvm")
    space = create_space(given, Target(target))
    context = ms.TuneContext(
        mod, target=Target(target), space_generator=space, search_strategy="replay-trace", rand_state=1
    )
    return list(context.generate_design_space()), context


def marked(kind: str, mod: Any, target: dict[str, Any], rules: Any = "extended") -> tuple[list[Any], Any]:
    """The sketches of one of our rules, by what it marks them with, and TVM's context of the task."""
    from tuning.engines.meta_schedule.spaces.marks import marks

    found, context = design_space(mod, target, Options(schedule_rules=rules))
    ours = [sketch for sketch in found if kind in marks(sketch)]
    assert len(ours) < len(found), "TVM's own remain"
    return ours, context


def candidate(sketch: Any, context: Any, seed: int, *, verified: bool = True) -> Any:
    """A module with the sketch's decisions drawn anew, and with weights where they were. TVM verifies each step unless told not to."""
    from tvm import s_tir

    schedule = s_tir.Schedule(context.mod, seed=seed, debug_mask="all" if verified else "none")
    sketch.trace.apply_to_schedule(schedule, remove_postproc=True)
    *postprocs, layouts = context.space_generator.postprocs
    assert "RewriteLayout" in str(layouts)
    assert all(postproc.apply(schedule) for postproc in postprocs)
    return schedule.mod


def computed(mod: Any, target: dict[str, Any]) -> Any:
    import tvm
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    infos = [info.as_json() for info in ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True)]
    random = np.random.default_rng(2)
    arrays = [tvm.runtime.tensor(random.standard_normal(shape, dtype="float32")) for _, _, shape in infos]
    tvm.compile(mod, Target(target))["main"](*arrays)
    return arrays[-1].numpy()


def tiles_compute_the_same(mod: Any, target: dict[str, Any], *, verified: bool = True) -> None:
    """There are sketches with register tiles, and a candidate of each computes what the function does."""
    expected = computed(mod, target)
    tiled, context = marked("registers", mod, target)
    assert tiled
    for nth, sketch in enumerate(tiled):
        found = computed(candidate(sketch, context, nth + 1, verified=verified), target)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
