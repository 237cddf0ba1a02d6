"""Builds a network with its best records into a shared library: `python -m tuning.engines.oneshot.compiling` answers `Build`.

The same network without any record is built too, for the proof, and a manifest says what the library is.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tuning.engines.proof.outputs import drawn
from tuning.engines.targets import intrinsics, vector_math
from tuning.engines.wire import versions
from tuning.engines.wire.compiling import (
    LIBRARY,
    MANIFEST,
    UNTUNED,
    BestRecord,
    Build,
    Built,
    Choose,
    Chosen,
    Quantized,
    Used,
)
from tuning.engines.wire.errors import Refused, in_one_line
from tuning.engines.wire.protocol import TensorInfo
from tuning.engines.wire.target_fields import TargetRefused
from tuning.engines.wire.targets import pairs_of_bfloat16

from . import linking, serving
from .serving import tell

FULL_BYTES = 1 << 20
"""A disk with fewer free bytes counts as full: TVM writes files without checking whether that worked."""


def compile_library(question: Build, pipe: serving.Pipe) -> Built:
    """Raises `Refused`, and whatever TVM does."""
    tell(pipe, "loading")
    from tuning.engines import networks
    from tuning.engines.networks import extraction

    target = _target(question)
    if any('"Tensorize"' in record.text for record in question.records):
        intrinsics.load(intrinsics.kind_for(str(target.kind.name), question.target))
    linker, folder = linking.name(), Path(question.folder)
    tell(pipe, "building", 0.0)
    network = networks.build(question.network)
    legalized = extraction.legalized(network.mod, target)
    computed, quantized = _in_integers(network, target, question)
    as_computed = legalized if computed is network.mod else extraction.legalized(computed, target)
    recorded = _as_recorded(computed, as_computed, target, question)
    mod, used, untuned = _tuned(recorded, target, question.records)
    tell(pipe, "building", 0.1)
    untuned_executable = _built(legalized, target)
    tell(pipe, "building", 0.5)
    vector_math.use()  # Not for the untuned library: the proof compares with what TVM builds by itself.
    chosen = None
    if question.choose is not None:
        records, chosen = _chosen_inside(question, question.choose, recorded, target, pipe)
        mod, used, untuned = _tuned(recorded, target, records)
    tell(pipe, "building", 0.6)
    tuned_executable = _built(mod, target)
    tell(pipe, "linking", 0.0)
    _linked(tuned_executable, folder / LIBRARY)
    tell(pipe, "linking", 0.5)
    _linked(untuned_executable, folder / UNTUNED)
    inputs, outputs = _inputs(legalized), _outputs(legalized)
    library = folder / LIBRARY
    size, digest = library.stat().st_size, _sha256(library)
    built = Built(versions.in_use(), used, untuned, inputs, outputs, size, digest, chosen, quantized)
    (folder / MANIFEST).write_bytes(_manifest(question, built, linker))
    return built


def _target(question: Build) -> Any:
    """The resolved target, and TVM prepared to measure for it if that is asked."""
    from tvm.target import Target

    from tuning.engines.targets.here import threads_to_measure
    from tuning.engines.targets.resolving import resolve

    try:
        target = Target(resolve(question.target, remote=question.remote).target)
    except TargetRefused as refused:
        raise Refused(f"This machine can't build for the target. {refused}") from refused
    if question.choose is not None and (threads := threads_to_measure(target)):
        # Before anything runs, as folding constants does. Otherwise TVM uses half of the logical cores of an x86 CPU.
        os.environ["TVM_NUM_THREADS"] = str(threads)
    return target


def _in_integers(network: Any, target: Any, question: Build) -> tuple[Any, Quantized | None]:
    """The network as it was tuned: what is quantized in it is computed in integers, if that was asked and the CPU can."""
    from tuning.engines import networks
    from tuning.engines.targets.dot_products import instruction_of

    in_floats = (
        network.quantized and network.quantized.floats
    )  # Of what is quantized; the model is read again only if anything is.
    instruction = instruction_of(target) if question.integers and in_floats else None
    built = networks.build(question.network, instruction=instruction) if instruction else None
    if built is None or built.quantized is None or not built.quantized.integers:
        return network.mod, None
    return built.mod, Quantized(built.quantized.integers, list(built.quantized.steps))


def _as_recorded(network: Any, legalized: Any, target: Any, question: Build) -> Any:
    """The network legalized, with the algorithms and in the precision that were tuned.

    The untuned library, which is its proof, always computes directly, and as the network says.
    """
    if question.precision != "network":
        return _reduced(network, target)
    if not question.algorithms:
        return legalized
    from .applying import with_algorithms

    try:
        return with_algorithms(network, target, [record.text for record in question.records])
    except Exception as error:
        raise _inapplicable(legalized, target, question.records, error) from error


def _reduced(network: Any, target: Any) -> Any:
    """The network legalized, in bfloat16."""
    from tuning.engines.networks import extraction
    from tuning.engines.networks.bfloat16.rewriting import in_bfloat16
    from tuning.engines.targets.resolving import needs

    pairs = pairs_of_bfloat16(needs(target.export()))
    if isinstance(pairs, str):
        raise Refused(pairs)
    return extraction.legalized(in_bfloat16(network, pairs), target)


def _chosen_inside(
    question: Build, choose: Choose, recorded: Any, target: Any, pipe: serving.Pipe
) -> tuple[list[BestRecord], Chosen]:
    """The records that are fastest inside the network, on this machine's CPU."""
    from . import choosing

    inputs = drawn(((one.name, one.shape, one.dtype) for one in _inputs(recorded)), choose.seed)

    def build(records: Sequence[BestRecord]) -> tuple[choosing.Loaded, Mapping[str, int]]:
        found = _applied(recorded, target, records)
        with tempfile.TemporaryDirectory(dir=question.folder) as folder:
            library = Path(folder, LIBRARY)
            _linked(_built(found.mod, target), library)
            return choosing.Loaded(str(library), list(inputs.values())), found.used

    tell(pipe, "choosing", 0.0)
    on_progress = partial(tell, pipe, "choosing")
    return choosing.chosen(build, question.records, choose.alternatives, choose.seconds, on_progress)


def _tuned(legalized: Any, target: Any, records: list[BestRecord]) -> tuple[Any, list[Used], list[str]]:
    """The network with its records applied, what they were applied to, and the names of the untuned functions."""
    found = _applied(legalized, target, records)
    if not found.used:
        raise Refused(
            f"None of the {len(records)} records fits a function of the network as this TVM builds it: "
            "they belong to other workloads, so nothing would be faster."
        )
    used = [
        Used(name, records[nth].run, records[nth].trial, records[nth].latency_s) for name, nth in found.used.items()
    ]
    return found.mod, used, found.untuned


def _applied(legalized: Any, target: Any, records: Sequence[BestRecord]) -> Any:
    from .applying import applied

    try:
        return applied(legalized, target, [record.text for record in records])
    except Exception as error:
        raise _inapplicable(legalized, target, records, error) from error


def _inapplicable(legalized: Any, target: Any, records: Iterable[BestRecord], error: Exception) -> Refused:
    """An error that names the record at fault."""
    from .applying import applied

    for record in records:
        try:
            applied(legalized, target, [record.text])
        except Exception as fault:  # noqa: BLE001  TVM raises errors of any kind
            return Refused(
                f"The record of trial {record.trial} of run {record.run} no longer applies with this TVM: {in_one_line(fault)}"
            )
    return Refused(f"The records can't be applied with this TVM: {in_one_line(error)}")


def _built(mod: Any, target: Any) -> Any:
    """A GPU runs only scheduled functions: those without a record get TVM's default schedule."""
    from tvm import relax

    if str(target.kind.name) != "llvm":
        from tvm.s_tir import dlight

        gpu = dlight.gpu
        rules = (gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback())
        with target:
            mod = dlight.ApplyDefaultSchedule(*rules)(mod)
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
        "precision": question.precision,
        "versions": built.versions,
        "linker": linker,
        "entry": "main",
        "inputs": said["inputs"],
        "outputs": said["outputs"],
        "coverage": {
            "functions": len(built.used) + len(built.untuned),
            "tuned": len(built.used),
            "untuned": built.untuned,
        },
        "records": said["used"],
        "chosen": said["chosen"],
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
