"""Builds a network with its best records into a shared library: `python -m tuning.engines.oneshot.compiling` answers `Build`.

The same network without any record is built too, for the proof, and a manifest says what the library is.
"""

from __future__ import annotations

import errno
import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tuning.engines.proof import threads
from tuning.engines.proof.outputs import drawn
from tuning.engines.targets import default_schedules, intrinsics, vector_math
from tuning.engines.wire import versions
from tuning.engines.wire.compiling import (
    LIBRARY,
    MAIN,
    MANIFEST,
    UNTUNED,
    BestRecord,
    Build,
    Built,
    BuiltBatch,
    Choose,
    Chosen,
    entry,
)
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import TensorInfo
from tuning.engines.wire.target_fields import TargetRefused

from . import linking, serving
from .serving import tell

FULL_BYTES = 1 << 20
"""A disk with fewer free bytes counts as full: TVM writes files without checking whether that worked."""
LAUNCH_GRAPH = "vm.builtin.cuda_graph.run_or_capture"


def compile_library(question: Build, pipe: serving.Pipe) -> Built:
    """Raises `Refused`, and whatever TVM does."""
    tell(pipe, "loading")
    from .applying import prepared, tuned

    target = _target(question)
    asked = _by_batch(question)
    if any('"Tensorize"' in record.text for one in asked.values() for record in one.records):
        intrinsics.load(intrinsics.kind_for(str(target.kind.name), question.target))
    linker, folder = linking.name(), Path(question.folder)
    tell(pipe, "building", 0.0)
    networks = {batch: prepared(one, target) for batch, one in asked.items()}
    with_records = {batch: tuned(networks[batch].recorded, target, one.records) for batch, one in asked.items()}
    tell(pipe, "building", 0.1)
    untuned_executable = _built({batch: one.plain for batch, one in networks.items()}, target)
    tell(pipe, "building", 0.5)
    vector_math.use()  # Not for the untuned library: the proof compares with what TVM builds by itself.
    chosen = None
    if question.choose is not None:
        recorded = networks[question.batch].recorded
        records, chosen = _chosen_inside(question, question.choose, recorded, target, pipe)
        with_records[question.batch] = tuned(recorded, target, records)
    tell(pipe, "building", 0.6)
    mods = {batch: one.mod for batch, one in with_records.items()}
    tuned_executable = _built(mods, target, cuda_graphs=question.cuda_graphs)
    tell(pipe, "linking", 0.0)
    _linked(tuned_executable, folder / LIBRARY)
    tell(pipe, "linking", 0.5)
    _linked(untuned_executable, folder / UNTUNED)
    library = folder / LIBRARY
    batches = [
        BuiltBatch(batch, one.used, one.untuned, _inputs(networks[batch].plain), _outputs(networks[batch].plain))
        for batch, one in sorted(with_records.items(), key=lambda item: item[0] or 0)
        if batch is not None
    ]
    own, of_own = networks[question.batch], with_records[question.batch]
    built = Built(
        versions.in_use(),
        of_own.used,
        of_own.untuned,
        _inputs(own.plain),
        _outputs(own.plain),
        library.stat().st_size,
        _sha256(library),
        chosen,
        graphs_of(tuned_executable) if question.cuda_graphs else None,
        own.quantized,
        batches,
    )
    (folder / MANIFEST).write_bytes(_manifest(question, built, linker))
    return built


def _by_batch(question: Build) -> dict[int | None, Build]:
    """What is asked of each batch, the run's own first; None is the only one of a library that takes no other."""
    others: dict[int | None, Build] = {
        other.batch: msgspec.structs.replace(question, network=other.network, records=other.records)
        for other in question.others
    }
    return {question.batch: question, **others}


def _target(question: Build) -> Any:
    """The resolved target, and TVM prepared to measure for it if that is asked."""
    from tvm.target import Target

    from tuning.engines.targets.here import threads_to_measure
    from tuning.engines.targets.resolving import resolve

    try:
        target = Target(resolve(question.target, remote=question.remote).target)
    except TargetRefused as refused:
        raise Refused(f"This machine can't build for the target. {refused}") from refused
    if question.choose is not None and (number := threads_to_measure(target)):
        threads.run_network_on(number)  # Before anything runs, as folding constants does.
    return target


def _chosen_inside(
    question: Build, choose: Choose, recorded: Any, target: Any, pipe: serving.Pipe
) -> tuple[list[BestRecord], Chosen]:
    """The records that are fastest inside the network, on this machine's CPU."""
    from . import choosing
    from .applying import applied_by

    inputs = drawn(((one.name, one.shape, one.dtype) for one in _inputs(recorded)), choose.seed)

    def build(records: Sequence[BestRecord]) -> tuple[choosing.Loaded, Mapping[str, int]]:
        found = applied_by(records, recorded, target)
        with tempfile.TemporaryDirectory(dir=question.folder) as folder:
            library = Path(folder, LIBRARY)
            _linked(_built({None: found.mod}, target), library)
            return choosing.Loaded(str(library), list(inputs.values())), found.used

    tell(pipe, "choosing", 0.0)
    on_progress = partial(tell, pipe, "choosing")
    return choosing.chosen(build, question.records, choose.alternatives, choose.seconds, on_progress)


def graphs_of(executable: Any) -> int:
    """How many CUDA graphs it captures and launches."""
    return sum(line.split()[:2] == ["call", LAUNCH_GRAPH] for line in executable.as_text().splitlines())


def _built(mods: Mapping[int | None, Any], target: Any, *, cuda_graphs: bool = False) -> Any:
    """By batch. A GPU runs only scheduled functions: those without a record get TVM's default schedule."""
    from tvm import relax
    from tvm.ir.transform import PassContext

    from tuning.engines.networks import batches

    mod = mods[None] if None in mods else batches.joined({batch: mod for batch, mod in mods.items() if batch})
    if str(target.kind.name) != "llvm":
        from tvm.s_tir import dlight

        with target:
            mod = dlight.ApplyDefaultSchedule(*default_schedules.rules())(mod)
    with PassContext(config={"relax.backend.use_cuda_graph": cuda_graphs}):
        return relax.build(mod, target)


def _linked(executable: Any, library: Path) -> None:
    """Object files are put next to the library, where they are removed even if this process is killed."""
    with tempfile.TemporaryDirectory(dir=library.parent) as objects:
        executable.export_library(str(library), fcompile=linking.link, workspace_dir=objects)


def _inputs(mod: Any) -> list[TensorInfo]:
    return [_info(str(one.name), one.ty) for one in mod["main"].params]


def _outputs(mod: Any) -> list[TensorInfo]:
    types = _leaves(mod["main"].ret_ty)
    return [_info("output" if len(types) == 1 else f"output_{nth}", one) for nth, one in enumerate(types)]


def _leaves(ty: Any) -> list[Any]:
    return [leaf for field in ty.fields for leaf in _leaves(field)] if hasattr(ty, "fields") else [ty]


def _info(name: str, ty: Any) -> TensorInfo:
    return TensorInfo(name, [int(extent) for extent in ty.shape], str(ty.dtype))


def _manifest(question: Build, built: Built, linker: str) -> bytes:
    said = msgspec.to_builtins(built)
    content = {
        "format": 1,
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **question.about,
        "network": _network(question),
        "target": question.target,
        "precision": question.rewrites.precision,
        "versions": built.versions,
        "linker": linker,
        "entry": MAIN,
        "inputs": said["inputs"],
        "outputs": said["outputs"],
        "batches": [
            {
                "batch": one["batch"],
                "entry": entry(one["batch"]),
                "inputs": one["inputs"],
                "outputs": one["outputs"],
                "untuned": one["untuned"],
                "records": one["used"],
            }
            for one in said["batches"]
        ],
        "coverage": {
            "functions": len(built.used) + len(built.untuned),
            "tuned": len(built.used),
            "untuned": built.untuned,
        },
        "records": said["used"],
        "chosen": said["chosen"],
        "cuda_graphs": said["cuda_graphs"],
        "quantized": said["quantized"],
        "library": {"size": built.size, "sha256": built.sha256},
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _network(question: Build) -> dict[str, Any]:
    network, file = question.network, question.network.file
    if file is None:
        return {"name": network.name, "options": network.options}
    return {"name": network.name, "format": file.format, "dims": file.dims, "sha256": _sha256(Path(file.path))}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _answer(question: Build, pipe: serving.Pipe) -> None:
    folder = Path(question.folder)
    try:
        pipe.send(compile_library(question, pipe))
    except Exception as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if full or shutil.disk_usage(folder).free < FULL_BYTES:
            raise Refused(f"The disk is full: there is no room for the library in {folder.parent}.") from error
        raise


def main() -> None:
    serving.serve(Build, _answer, "TVM can't compile it")


if __name__ == "__main__":
    main()
