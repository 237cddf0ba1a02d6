"""Carries out a stage of a claimed compilation: builds the library, or compares it with the untuned one and benchmarks it."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Union, cast

import msgspec
from django.conf import settings
from django.db import transaction

from tuning.beneath import NotRegular
from tuning.engines.wire import versions
from tuning.engines.wire.compiling import (
    LIBRARY,
    UNTUNED,
    BestRecord,
    Build,
    Built,
    Choose,
    LookInto,
    Needs,
    OlderBuild,
    OtherBatch,
    Phase,
    Prove,
    Proven,
    zig,
)
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.legacy import RELAY, LegacyEngine, relay_spec
from tuning.engines.wire.protocol import NetworkSpec
from tuning.host import devices, sandbox
from tuning.host.older import compilers
from tuning.host.private import copied
from tuning.models import Benchmark, Compilation, Network, Record, Run
from tuning.notify.announce import announce_compilation
from tuning.reads.artifacts import compiler_of
from tuning.reads.console import last_lines
from tuning.storage import Away, Moved, store
from tuning.storage.local import open_here, remove_here
from tuning.wording import internal_error

from .best_records import alternatives, best_records
from .copies import Growing

logger = logging.getLogger(__name__)
Status, Stage = Compilation.Status, Compilation.Stage
COMPILER, PROVER = "tuning.engines.oneshot.compiling", "tuning.engines.oneshot.proving"
LOOKER = "tuning.engines.oneshot.library_file"
"""The programs of the child processes."""
OLDER_COMPILER, OLDER_PROVER = "tuning.engines.old_tvm.compiling.building", "tuning.engines.old_tvm.compiling.proving"
"""Those that run under an interpreter with an older TVM."""
PACE_S = 0.5
"""Minimum time between two announcements of the same phase."""
TAIL_LINES = 8
OfBatches = dict[int, "tuple[list[BestRecord], float | None]"]
"""By batch, the best records and their estimate in seconds."""
SEEDS = 2**31
COPIED_BYTES = 4 << 20
"""Read at once."""


def carry_out(compilation: Compilation, shutdown: threading.Event) -> str:
    """Return the status that results; at shutdown the compilation is queued again.

    A library that was built is `queued` to be verified. The status is `gone` if it was deleted meanwhile, with its run.
    """
    job = _Job(compilation, shutdown)
    job.announce()
    try:
        job.prove() if compilation.stage == Stage.PROVE else job.build()
    except sandbox.Abandoned:
        job.abandon()
    except sandbox.Died as died:
        job.fail(_death(compilation, died))
    except (Refused, devices.NotAllowed, compilers.NoCompiler) as refused:
        job.fail(str(refused))
    except OSError as error:
        job.fail(_in_words(error))
    except Exception as error:
        job.fail(internal_error(error))
        raise
    finally:
        compilation.remove_unpublished()
        if store().is_shared:
            remove_here(compilation.folder)  # What counts is stored.
        announce_compilation(compilation.pk)
    return Compilation.objects.filter(pk=compilation.pk).values_list("status", flat=True).first() or "gone"


class _Job:
    def __init__(self, compilation: Compilation, shutdown: threading.Event) -> None:
        self.compilation = compilation
        self.run = compilation.run
        self.shutdown = shutdown
        self.announced_at = 0.0
        self.console = Growing(compilation.console_log)

    def build(self) -> None:
        """Copies of the files that were built are published in one transaction: their folder is renamed in it."""
        compilation = self.compilation
        older = compiler_of(self.run)
        by = older.found.tvm if older else None
        records, estimate_s = best_records(self.run, compilation.source, by, imported=compilation.imported_records)
        if not records:
            raise Refused(_without_records(self.run))
        compilation.remove_unpublished()
        compilation.unpublished.mkdir(parents=True)
        others = {one["batch"]: self._records_of(one) for one in self._other_batches()}
        question = self._build_question(records, estimate_s, others)
        if older:
            built = self._answer(OLDER_COMPILER, self._asked_of_older(question), Built, older)
        else:
            built = self._answer(COMPILER, question, Built)
        values = {"estimate_s": estimate_s, **_values(built), "untuned": built.untuned, "versions": built.versions}
        values["batches"] = self._batches_built(built, estimate_s, others)
        values |= _copy_built(compilation)
        self._look_into([compilation.ready / LIBRARY, compilation.ready / UNTUNED])
        files = [(name, store().prepare(compilation.ready / name)) for name in compilation.FILES]
        with transaction.atomic():
            ready = compilation.requeue(Status.RUNNING, stage=Stage.PROVE, where=self.compilation.hold, **values)
            if ready:
                for name, prepared in files:
                    prepared.add(compilation.artifact / name)
                compilation.ready.rename(compilation.artifact)
        if not ready:
            raise sandbox.Abandoned

    def _look_into(self, libraries: Sequence[Path]) -> None:
        """Raise `Refused` if a library does what TVM's never do: no process loads it before."""
        question = LookInto(paths=[str(path) for path in libraries], by_compiler=zig() is None, **sandbox.limits())
        sandbox.ask_once(LOOKER, question, Needs, self._go_on)

    def prove(self) -> None:
        """The verdict and the benchmark are stored together."""
        for path in (self.compilation.library, self.compilation.untuned_library, self.compilation.manifest):
            store().fetch(path)
        older = compiler_of(self.run, self.compilation.versions)
        proven = self._answer(OLDER_PROVER if older else PROVER, self._prove_question(), Proven, older)
        verdict = {
            "verified": proven.verified,
            "max_abs_error": proven.max_abs_error,
            "max_rel_error": proven.max_rel_error,
            "tolerance": msgspec.to_builtins(proven.tolerance),
            "error": None if proven.verified else _difference(proven),
        }
        with transaction.atomic():
            Benchmark.objects.create(
                compilation=self.compilation,
                created_by=self.compilation.asked_by,
                rounds=proven.rounds,
                onnxruntime=proven.onnxruntime,
                without_onnxruntime=proven.without_onnxruntime,
                profile=msgspec.to_builtins(proven.profile),
                batches=msgspec.to_builtins(proven.batches),
                accuracy=self._accuracy(proven),
            )
            if not self.compilation.finish(Status.RUNNING, to=Status.FINISHED, **verdict):
                raise sandbox.Abandoned

    def _accuracy(self, proven: Proven) -> dict[str, Any] | None:
        """With the float model, as it is called now."""
        compared_with = self.run.tuned_network.float_model
        if proven.accuracy is None or compared_with is None:
            return None
        return {"network": compared_with.pk, "name": compared_with.name, **msgspec.to_builtins(proven.accuracy)}

    def abandon(self) -> None:
        """End or requeue the compilation: it was cancelled, taken away, or the worker is shutting down."""
        if self.compilation.finish(Status.CANCELLING, to=self.compilation.without_result(Status.CANCELLED)):
            return
        if self.shutdown.is_set():
            self.compilation.requeue(Status.RUNNING, stage=self.compilation.stage, where=self.compilation.hold)
        else:
            logger.warning("Compilation %s was taken away before it ended.", self.compilation.pk)

    def fail(self, error: str) -> None:
        """Store why there is no result, unless the user cancelled meanwhile."""
        if not self.compilation.finish(Status.RUNNING, to=self.compilation.without_result(Status.FAILED), error=error):
            self.abandon()

    def announce(self) -> None:
        """Announce the compilation as it is in the database."""
        announce_compilation(self.compilation.pk)
        self.announced_at = time.monotonic()

    def _build_question(self, records: list[BestRecord], estimate_s: float | None, others: OfBatches) -> Build:
        compilation, run = self.compilation, self.run
        about = {"compilation": compilation.pk, "run": run.pk, "run_name": run.name, "records_of": compilation.source}
        choose = None
        if compilation.stage == Stage.CHOOSE:
            several = alternatives(run, compilation.source, records, imported=compilation.imported_records)
            choose = Choose(several, settings.BENCHMARK_S, _seed())
        return Build(
            network=run.tuned_network.spec(),
            target=run.target,
            records=records,
            folder=str(compilation.unpublished),
            remote=devices.is_remote(run.device),
            about=about | {"estimate_s": estimate_s},
            choose=choose,
            quietly=choose is None,
            rewrites=run.rewrites,
            cuda_graphs=compilation.cuda_graphs is not None,
            batch=self._own_batch(),
            others=[OtherBatch(one["batch"], _network(one), others[one["batch"]][0]) for one in self._other_batches()],
            **sandbox.compile_limits(run.target),
        )

    def _own_batch(self) -> int | None:
        return next((one["batch"] for one in self.compilation.batches if one["run"] == self.run.pk), None)

    def _other_batches(self) -> list[dict[str, Any]]:
        return [one for one in self.compilation.batches if one["run"] != self.run.pk]

    def _records_of(self, batch: dict[str, Any]) -> tuple[list[BestRecord], float | None]:
        """The best records of another batch, and its estimate. Raises `Refused`."""
        run = Run.objects.filter(pk=batch["run"]).first()
        if run is None:
            raise Refused(f"Run {batch['run']}, whose records batch {batch['batch']} should have, was deleted.")
        records, estimate_s = best_records(run, self.compilation.source)
        if not records:
            raise Refused(f"Run {batch['run']}, whose records batch {batch['batch']} should have, has no valid one.")
        return records, estimate_s

    def _batches_built(self, built: Built, own_s: float | None, others: OfBatches) -> list[dict[str, Any]]:
        """What is stored of each batch."""
        of_batch = {one.batch: msgspec.to_builtins(one) for one in built.batches}
        estimates = {batch: estimate_s for batch, (_, estimate_s) in others.items()}
        return [
            one | of_batch[one["batch"]] | {"estimate_s": estimates.get(one["batch"], own_s)}
            for one in self.compilation.batches
        ]

    def _asked_of_older(self, question: Build) -> OlderBuild:
        network, linker = question.network, zig()
        return OlderBuild(
            **{name: getattr(question, name) for name in question.__struct_fields__},
            engine=cast("LegacyEngine", self.run.engine),
            relay=relay_spec(network) if network.name in RELAY and not network.file else None,
            no_rewrite=self.run.options.get("layout_rewrite_option") == "no_rewrite",
            linker=[linker, "ld.lld"] if linker else None,
            linker_name=f"ziglang {versions.installed('ziglang')} (ld.lld)" if linker else "",
        )

    def _prove_question(self) -> Prove:
        floats = self.run.tuned_network.float_model if self.run.is_meta_schedule else None
        return Prove(
            network=self.run.tuned_network.spec(),
            target=self.run.target,
            folder=str(self.compilation.artifact),
            seed=_seed(),
            benchmark_s=settings.BENCHMARK_S,
            remote=devices.remote_of(self.run.device),
            precision=self.run.rewrites.precision,
            batch=self._own_batch(),
            others={one["batch"]: _network(one) for one in self._other_batches()},
            float_model=floats.spec() if floats else None,
            quietly=False,
            **sandbox.compile_limits(self.run.target),
        )

    def _answer(
        self, module: str, question: Build | Prove, kind: type[Any], older: compilers.Compiler | None = None
    ) -> Any:
        """Announce phases until the answer of that kind comes. Raises `Refused` and `sandbox.Abandoned`."""
        limits = sandbox.Limits(settings.COMPILE_S, "TUNEBOARD_COMPILE")
        self.compilation.folder.mkdir(parents=True, exist_ok=True)
        store().restore(self.compilation.console_log)
        with open_here(self.compilation.console_log, "a+b") as log, ExitStack() as ending:
            ending.callback(self._store_console)
            kinds: Any = Union[Phase, kind]
            python = older.python if older else None
            asked = sandbox.ask(module, question, kinds, self._go_on, limits=limits, printed=log, python=python)
            with closing(asked) as answers:
                answer: Any
                for answer in answers:
                    if isinstance(answer, kind):
                        return answer
                    self._show(answer)
        raise Refused("The process ended without an answer.")

    def _store_console(self) -> None:
        """Have every machine see what was printed so far."""
        if store().is_shared:
            with suppress(Moved):  # Another worker has taken the compilation: renewing the lease tells so.
                self.console.add_all()

    def _go_on(self, _step: str) -> bool:
        self._store_console()
        return not self.shutdown.is_set() and self.compilation.renew() and self.compilation.status == Status.RUNNING

    def _show(self, phase: Phase) -> None:
        changed = phase.name != self.compilation.phase
        if changed or time.monotonic() > self.announced_at + PACE_S:
            self.compilation.phase = phase.name
            self.compilation.held().update(phase=phase.name, progress=phase.progress)
            self.announce()


def _copy_built(compilation: Compilation) -> dict[str, Any]:
    """Copy the files to a folder that the process that built them can't write to; size and SHA-256 of the library's copy.

    Raises `Refused` if anything but a regular file is in the place of one.
    """
    compilation.ready.mkdir()
    copies = {}
    for name in compilation.FILES:
        try:
            with open_here(compilation.unpublished / name) as built:
                pieces = iter(partial(built.read, COPIED_BYTES), b"")
                copies[name] = copied(pieces, compilation.ready / name)
        except (NotRegular, FileNotFoundError) as error:
            raise Refused(f"Nothing was published, since the compiler left no usable {name}: {error}") from error
    size, sha256 = copies[LIBRARY]
    return {"size": size, "sha256": sha256}


def _without_records(run: Run) -> str:
    """Why there is no record to compile with."""
    reason = "No run of the project has a valid record of its tasks for this target and TVM version."
    for record in Record.objects.filter(task__run=run).best_first().select_related("task__run"):
        if record.trouble:
            return f"{reason} The record of trial {record.trial} of run {run.pk} can't be used: {record.trouble}."
    return reason


def _network(batch: dict[str, Any]) -> NetworkSpec:
    """The network for a batch, which outlives its run. Raises `Refused`."""
    network = Network.objects.filter(pk=batch["network"]).first()
    if network is None:
        raise Refused(f"The network for batch {batch['batch']} was deleted: the library can't be verified without it.")
    return network.spec()


def _values(built: Built) -> dict[str, Any]:
    names = ("used", "chosen", "cuda_graphs", "inputs", "outputs")
    return {name: msgspec.to_builtins(getattr(built, name)) for name in names}


def _seed() -> int:
    return secrets.randbelow(SEEDS)


def _difference(proven: Proven) -> str:
    if proven.max_abs_error is None:
        return "An output of the tuned library isn't finite where the untuned library's is: don't use it."
    return (
        f"Outputs of the tuned library differ from the untuned one's by up to {proven.max_abs_error:.3g} "
        f"({proven.max_rel_error:.3g} of the largest), which is more than rounding explains: don't use it."
    )


def _in_words(error: OSError) -> str:
    if isinstance(error, Away):
        return str(error)
    return _full() if error.errno == errno.ENOSPC else f"Its files can't be written: {error}."


def _death(compilation: Compilation, died: sandbox.Died) -> str:
    tail = last_lines(compilation, TAIL_LINES)
    if os.strerror(errno.ENOSPC) in tail:  # LLVM aborts.
        return _full()
    return f"{died}\nThe log's last lines:\n{tail}" if tail else str(died)


def _full() -> str:
    free = shutil.disk_usage(settings.VAR).free
    return f"The disk of {settings.VAR} is full ({free >> 20:,} MiB free). Nothing was published."
