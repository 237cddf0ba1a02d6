"""The library as files that stock tools read: MetaSchedule's two database files, or a log of an older engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import get_args

import msgspec
from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef

from tuning.engines.wire.engines import ENGINES
from tuning.logs import meta_schedule
from tuning.logs.databases import UNKNOWN_HASH
from tuning.logs.neutral import EngineName
from tuning.models import Project, Record, TaskQuerySet
from tuning.reads.files import File, Pieces, joined
from tuning.reads.library import LibraryFilter, targets, tvm
from tuning.records import why_refused
from tuning.validation import Conflict, Invalid
from tuning.wording import target_names

from .records import archive

PIECE_RECORDS = 50
"""Records whose texts are in memory at a time. With its workload, one may be some 100 kB long."""
SHOWN = 8
"""Digits of a fingerprint that are enough to name it."""


@dataclass(frozen=True)
class Exported:
    """The best record of each workload on each target, as an engine's own tools read them.

    Of MetaSchedule, only records by the installed TVM, since a database with others may not open at all; compilations use the same
    ones. Records whose workload isn't known are left out: their log came without its workload file.
    """

    engine: EngineName
    keys: list[int]
    """Of the records, those of a workload one after another."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Of MetaSchedule's workloads that were written: the line of each, by its hash."""

    @classmethod
    def of(cls, wanted: LibraryFilter, engine: EngineName, project: Project | None = None) -> Exported:
        """What the user sees of the engine's records, narrowed to a project if one is given. Raises `Conflict` if there are none."""
        found = Record.objects.filter(task__in=_best(wanted, engine, project), trial=F("task__best_trial"))
        ordered = found.order_by("task__workload_hash", "task__run__target_fingerprint", "pk")
        if not (keys := list(ordered.values_list("pk", flat=True))):
            raise Conflict("No record of this engine matches, so there is nothing to export.")
        return cls(engine, keys)

    def file(self) -> File:
        """MetaSchedule's two files in a zip, or the log of an older engine."""
        version = f"{self.engine} {hashlib.sha256(repr(self.keys).encode()).hexdigest()}"
        if self.engine != "meta_schedule":
            return File(f"{self.engine}.json", "application/jsonl", version, self.log())
        zipped = archive()
        for name, pieces in self.database().items():
            zipped.add(pieces, name)
        return File("database.zip", "application/zip", version, joined(zipped))

    def log(self) -> Pieces:
        """One line a record, of an older engine."""
        return joined(text.encode() + b"\n" for _, text in self._records())

    def database(self) -> dict[str, Pieces]:
        """MetaSchedule's two files, by name. The first is to be read first: it numbers the workloads."""
        return {
            meta_schedule.WORKLOADS: joined(self._workload_lines()),
            meta_schedule.RECORDS: joined(self._numbered()),
        }

    def _numbered(self) -> Iterator[bytes]:
        """The lines of records. One that was deleted since the workloads were written is left out."""
        return (
            b"[%d,%b]\n" % (self.numbers[shash], record)
            for shash, text in self._records()
            for _, record in [_parts(text)]
            if shash in self.numbers
        )

    def _workload_lines(self) -> Iterator[bytes]:
        for shash, text in self._records():
            if shash not in self.numbers:
                self.numbers[shash] = len(self.numbers)
                yield _parts(text)[0] + b"\n"

    def _records(self) -> Iterator[tuple[str, str]]:
        """Hash of the workload and text of each record that is still there, in order."""
        keys = iter(self.keys)
        while piece := list(islice(keys, PIECE_RECORDS)):
            rows = Record.objects.filter(pk__in=piece).values_list("pk", "task__workload_hash", "text")
            texts = {key: (shash, text) for key, shash, text in rows if not why_refused(self.engine, text)}
            yield from (texts[key] for key in piece if key in texts)


def exportable(wanted: LibraryFilter) -> list[tuple[EngineName, str]]:
    """The engines with records to export, and their titles."""
    return [(engine, ENGINES[engine].title) for engine in get_args(EngineName) if _trusted(wanted, engine).exists()]


def target_named(user: User | None, text: str) -> str:
    """The fingerprint of the target with records that a text names: by the word that pages call it, its fingerprint, or how that begins.

    Raises `Invalid` for `target` with the names that are known.
    """
    known = targets(user)
    names = target_names([target for _, target in known])
    pairs = list(zip((key for key, _ in known), names, strict=True))
    found = [key for key, name in pairs if text == name]
    found = found or [key for key, _ in pairs if len(text) >= SHOWN and key.startswith(text)]
    if len(found) == 1:
        return found[0]
    listed = "; ".join(f"{name} ({key[:SHOWN]})" for key, name in pairs) or "none"
    raise Invalid({"target": f"Must be a target with records, by its name or how its fingerprint begins: {listed}."})


def _best(wanted: LibraryFilter, engine: EngineName, project: Project | None) -> TaskQuerySet:
    """The best tasks by the library's rule."""
    tasks = _trusted(wanted, engine)
    return (tasks if project is None else tasks.filter(run__project=project)).best_known(tvm())


def _trusted(wanted: LibraryFilter, engine: EngineName) -> TaskQuerySet:
    """The tasks whose best record can be exported."""
    own = Record.objects.filter(task=OuterRef("pk"), trial=OuterRef("best_trial"))
    tasks = wanted.tasks().filter(Exists(own), run__engine=engine, run__synthetic=False)
    if engine != "meta_schedule":
        return tasks
    ours = tasks.filter(**{"run__versions__apache-tvm": tvm() or ""})
    return ours.exclude(workload_hash__startswith=UNKNOWN_HASH)


def _parts(text: str) -> tuple[bytes, bytes]:
    """Workload and record, each as JSON, of a record with its workload."""
    workload, record = msgspec.json.decode(text, type=tuple[msgspec.Raw, msgspec.Raw])
    return bytes(workload), bytes(record)
