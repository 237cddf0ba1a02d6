"""Real libraries, built with the records of a real run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.tuning.engines import gpu_stand_in
from tests.tuning.engines.compiling import best, build, more, prove, target_of
from tests.tuning.engines.running import Engine, options, start
from tests.tuning.engines.trackers import KEY, RpcDevices
from tuning.engines.oneshot import linking
from tuning.engines.proof.rounds import LEAST_ROUNDS
from tuning.engines.wire.compiling import LIBRARY, MANIFEST, UNTUNED, BestRecord, Built, Choose, Proven
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.options.rewrites import Rewrites
from tuning.engines.wire.protocol import NetworkSpec, Remote
from tuning.engines.wire.targets import pairs_of_bfloat16

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.
MLP = NetworkSpec("mlp", {"batch": 1, "dtype": "float32"})


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("mlp")
    with Engine(start(folder / "work", network=MLP, trials_budget=8), folder / "console.log") as engine:
        engine.to_the_end()
        yield engine


@pytest.fixture(scope="module")
def made(tuned: Engine, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A library, its folder, and the target."""
    folder = tmp_path_factory.mktemp("libraries") / "mlp"
    target = target_of(tuned)
    return SimpleNamespace(built=build(MLP, target, best(tuned), folder), folder=folder, target=target)


def test_every_function_uses_its_best_record(made: Any, tuned: Engine) -> None:
    built: Built = made.built
    assert built.untuned == []
    records = {(record.run, record.trial, record.latency_s) for record in best(tuned)}
    assert {(one.run, one.trial, one.latency_s) for one in built.used} == records
    assert len({one.function for one in built.used}) == 2


def test_the_manifest_says_what_the_library_is(made: Any) -> None:
    manifest = json.loads((made.folder / MANIFEST).read_bytes())
    assert manifest["inputs"] == [{"name": "x", "shape": [1, 784], "dtype": "float32"}]
    assert manifest["outputs"] == [{"name": "output", "shape": [1, 10], "dtype": "float32"}]
    assert (manifest["run_name"], manifest["network"]["name"], manifest["target"]) == ("a run", "mlp", made.target)
    assert manifest["versions"]["apache-tvm"] == "0.27.0.post1"
    assert manifest["coverage"] == {"functions": 2, "tuned": 2, "untuned": []}
    data = (made.folder / LIBRARY).read_bytes()
    assert manifest["library"] == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@pytest.fixture(scope="module")
def proven(made: Any) -> Proven:
    return prove(MLP, made.target, made.folder)


def test_the_library_is_verified_and_benchmarked(proven: Proven) -> None:
    assert proven.verified
    assert proven.max_rel_error is not None
    assert proven.max_rel_error < 1e-5
    assert all(len(proven.rounds[side]) >= 3 for side in ("tuned", "untuned"))
    assert (proven.onnxruntime is None) == (proven.without_onnxruntime is not None)


def test_the_library_is_profiled_by_function(proven: Proven, made: Any) -> None:
    assert proven.profile
    assert {part.function for part in proven.profile.functions} == {one.function for one in made.built.used}
    assert all(part.calls == 1 and 0 < part.inside_s < 1 for part in proven.profile.functions)
    assert proven.profile.machine_calls > 0
    assert 0 <= proven.profile.machine_s < 1


def test_it_is_compared_with_onnxruntime_if_that_is_installed(proven: Proven) -> None:
    runtime = pytest.importorskip("onnxruntime")
    assert proven.onnxruntime == runtime.__version__
    assert LEAST_ROUNDS <= len(proven.rounds["onnxruntime"]) <= len(proven.rounds["tuned"])


@pytest.fixture(scope="module")
def in_bfloat16(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A library of a run in bfloat16, its folder, and the target, if this machine's CPU has the instructions."""
    from tuning.engines.targets import resolving

    target = resolving.resolve("this").target
    if isinstance(pairs_of_bfloat16(resolving.needs(target)), str):
        pytest.skip("this machine's CPU has no bfloat16 instructions")
    folder = tmp_path_factory.mktemp("bfloat16")
    asked = start(folder / "work", network=MLP, trials_budget=8, options=options(precision="bfloat16"))
    with Engine(asked, folder / "console.log") as engine:
        engine.to_the_end()
    rewrites = Rewrites(precision="bfloat16", algorithms=True)
    built = build(MLP, target, best(engine), folder / "library", rewrites=rewrites)
    return SimpleNamespace(built=built, folder=folder / "library", target=target, engine=engine)


def test_products_are_built_in_the_precision_they_were_tuned_in(in_bfloat16: Any, made: Any) -> None:
    assert {one.function.partition("_matmul")[0] for one in in_bfloat16.built.used} == {"fused_bfloat16"}
    assert in_bfloat16.built.untuned == []
    assert in_bfloat16.built.size < made.built.size, "weights take half of the memory"
    manifest = json.loads((in_bfloat16.folder / MANIFEST).read_bytes())
    assert (manifest["precision"], manifest["outputs"][0]["dtype"]) == ("bfloat16", "float32")
    assert json.loads((made.folder / MANIFEST).read_bytes())["precision"] == "network"


@pytest.mark.rare
def test_bfloat16_is_compared_with_the_network_in_float32(in_bfloat16: Any) -> None:
    found = prove(MLP, in_bfloat16.target, in_bfloat16.folder, precision="bfloat16")
    assert (found.verified, found.tolerance.dtype) == (True, "bfloat16")
    assert found.max_rel_error is not None
    assert 1e-4 < found.max_rel_error < 1e-2
    assert not prove(MLP, in_bfloat16.target, in_bfloat16.folder).verified, "it isn't float32"


def test_records_in_bfloat16_are_of_no_other_precision(in_bfloat16: Any, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="None of the 2 records fits a function"):
        build(MLP, in_bfloat16.target, best(in_bfloat16.engine), tmp_path / "library")


def test_a_library_with_other_weights_is_detected(made: Any, tuned: Engine, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    shutil.copytree(made.folder, wrong)
    data = (wrong / LIBRARY).read_bytes()
    # The weights are stored as they are, and make up most of the library.
    at = len(data) // 2
    (wrong / LIBRARY).write_bytes(data[:at] + bytes(4096) + data[at + 4096 :])
    proven = prove(MLP, made.target, wrong)
    assert not proven.verified
    assert proven.max_rel_error is None or proven.max_rel_error > proven.tolerance.relative


def test_the_python_program_runs_the_library_without_tuneboard(made: Any, tmp_path: Path) -> None:
    name = program(made, tmp_path, "python", ".py")
    done = subprocess.run(
        [sys.executable, "-I", name],
        cwd=tmp_path,
        env={"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(1, 10) float32 [")


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
def test_the_cpp_program_compiles_and_runs_as_its_comment_says(made: Any, tmp_path: Path) -> None:
    name = program(made, tmp_path, "cpp", ".cpp")
    comment = [line[3:] for line in (tmp_path / name).read_text().splitlines() if line.startswith("// ")]
    begins = next(nth for nth, line in enumerate(comment) if line.startswith("tvm="))
    script = "\n".join(comment[begins : begins + 5])
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 10 ")


def program(made: Any, folder: Path, language: str, suffix: str) -> str:
    """Write it next to the library, as both are downloaded, and return its name."""
    from dashboard.presentation import snippets
    from tuning.models import Compilation, Network, Run

    inputs = msgspec.to_builtins(made.built.inputs)
    run = Run(pk=3, network=Network(name="mlp"), target=made.target)
    compilation = Compilation(pk=4, run=run, versions=made.built.versions, inputs=inputs)
    text = snippets.rendered(compilation, "mlp_here", language)
    shutil.copy(made.folder / LIBRARY, folder / "mlp_here.so")
    (folder / f"mlp_here{suffix}").write_text(text)
    return f"mlp_here{suffix}"


def test_it_chooses_inside_the_network(made: Any, tuned: Engine, tmp_path: Path) -> None:
    records = best(tuned)
    alternatives = [few[:1] for few in more(tuned, records)]
    folder = tmp_path / "chosen"
    built = build(MLP, made.target, records, folder, choose=Choose(alternatives, 0.3, 1))
    assert built.chosen is not None
    assert {one.function for one in built.chosen.functions} == {one.function for one in made.built.used}
    tried = {one.tried[0].trial: [other.trial for other in one.tried[1:]] for one in built.chosen.functions}
    assert tried == {
        record.trial: [one.trial for one in few] for record, few in zip(records, alternatives, strict=True)
    }
    assert all(tried.inside_s > 0 for one in built.chosen.functions for tried in one.tried)
    chosen = {one.tried[one.chosen if built.chosen.kept else 0].trial: one.function for one in built.chosen.functions}
    assert {one.trial: one.function for one in built.used} == chosen, "the library has what is told"
    assert json.loads((folder / MANIFEST).read_bytes())["chosen"] == msgspec.to_builtins(built.chosen)
    assert {path.name for path in folder.iterdir()} == {LIBRARY, MANIFEST, UNTUNED}
    assert prove(MLP, made.target, folder).verified


def test_it_names_functions_without_a_record(made: Any, tuned: Engine, tmp_path: Path) -> None:
    first, *_ = best(tuned)
    built = build(MLP, made.target, [first], tmp_path / "half")
    assert [one.trial for one in built.used] == [first.trial]
    assert len(built.untuned) == 1
    assert set(built.untuned) < {one.function for one in made.built.used}


def test_records_of_another_workload_are_refused(made: Any, tuned: Engine, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"None of the 2 records fits a function of the network"):
        build(NetworkSpec("mlp", {"batch": 3}), made.target, best(tuned), tmp_path / "other")


def test_a_record_that_cannot_be_used_is_named(made: Any, tuned: Engine, tmp_path: Path) -> None:
    records = [*best(tuned), BestRecord(5, 23, 1e-3, "[]")]
    with pytest.raises(Refused, match=r"The record of trial 23 of run 5 no longer applies with this TVM: "):
        build(MLP, made.target, records, tmp_path / "unread")


def test_a_workload_that_tvm_cannot_read_does_no_harm(made: Any, tuned: Engine, tmp_path: Path) -> None:
    """The network's own functions are built, so that the records' are never read."""
    unreadable = BestRecord(5, 23, 1e-3, '[["1", "AAAA"], [[[], []], [1e-3], {"kind": "llvm"}, []]]')
    built = build(MLP, made.target, [*best(tuned), unreadable], tmp_path / "unread")
    assert built.used == made.built.used


def test_a_target_of_another_machine_is_refused(tuned: Engine, tmp_path: Path) -> None:
    target = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
    with pytest.raises(Refused, match=r"This machine can't build for the target. Code for aarch64-linux-gnu can't run"):
        build(MLP, target, best(tuned), tmp_path / "board")


def test_its_memory_is_limited(tuned: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.tuning.engines import compiling

    monkeypatch.setitem(compiling.LIMITS, "memory_mb", 200)
    with pytest.raises(Refused, match=r"more than the 200 MiB of memory"):
        build(MLP, target_of(tuned), best(tuned), tmp_path / "small")


@pytest.mark.rare
def test_it_is_proven_on_a_device_of_a_tracker(made: Any, tmp_path: Path) -> None:
    with RpcDevices(tmp_path) as devices:
        devices.add()
        devices.wait_until_there_are(1)
        proven = prove(MLP, made.target, made.folder, remote=Remote(devices.address, KEY, 30.0))
    assert proven.verified
    assert len(proven.rounds["untuned"]) >= 3
    assert proven.without_onnxruntime == "The device is remote, while ONNX Runtime is on this machine."
    assert proven.profile is None


def test_it_says_when_no_device_is_there(made: Any, tmp_path: Path) -> None:
    with (
        RpcDevices(tmp_path) as devices,
        pytest.raises(Refused, match=r"No device was available for 1 s. The tracker at"),
    ):
        prove(MLP, made.target, made.folder, remote=Remote(devices.address, KEY, 1.0))


def test_it_links_for_boards_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tvm import relax
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction

    monkeypatch.setenv("PATH", "")
    target = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4})
    mod = extraction.legalized(networks.build(MLP).mod, target)
    library = tmp_path / UNTUNED
    relax.build(mod, target).export_library(str(library), fcompile=linking.link)
    assert library.read_bytes()[:20] == b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00", "a library for aarch64"


def test_it_says_what_to_install_without_a_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "zig", lambda: None)
    monkeypatch.setenv("PATH", "")
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Refused, match=r"install the package ziglang, or a C compiler"):
        linking.name()


def test_the_linkers_message_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "broken.o").write_bytes(b"no object")
    with pytest.raises(Refused, match=r"can't be linked by ziglang.*broken.o:1: unknown directive"):
        linking.link(str(tmp_path / "x.so"), [str(tmp_path / "broken.o")])


def test_functions_without_a_record_get_a_default_schedule_for_a_gpu() -> None:
    """Without a schedule that binds loops to threads, TVM builds no kernel."""
    if not shutil.which("nvcc"):
        pytest.skip("no nvcc")
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.oneshot import compiling
    from tuning.engines.targets import cuda

    cuda.choose_compiler()
    target = Target("nvidia/nvidia-a100")
    mod = extraction.legalized(networks.build(MLP).mod, target)
    assert compiling._built({None: mod}, target) is not None


@pytest.mark.parametrize(("network", "captured"), [("mlp", 0), ("squeezenet_v1.1", 1)])
def test_kernels_are_captured_as_cuda_graphs(
    network: str, captured: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for those that read the network's inputs or write its outputs, which both kernels of the MLP do."""
    from tvm.target import Target

    from tuning.engines import networks
    from tuning.engines.networks import extraction
    from tuning.engines.oneshot import compiling
    from tuning.engines.targets import cuda

    gpu_stand_in.add_compiler(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvcc")
    cuda.choose_compiler()
    target = Target("nvidia/nvidia-a100")
    mod = extraction.legalized(networks.build(NetworkSpec(network, {})).mod, target)
    found = [compiling.graphs_of(compiling._built({None: mod}, target, cuda_graphs=wanted)) for wanted in (False, True)]
    assert found == [0, captured]


def test_only_the_three_files_are_left(made: Any) -> None:
    assert {path.name for path in made.folder.iterdir()} == {LIBRARY, MANIFEST, UNTUNED}
