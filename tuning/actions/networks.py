"""Upload and delete models, and extract the tasks of any network."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain, count, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone
from typing_extensions import TypedDict

from tuning import audit
from tuning.engines.wire.catalog import BUILTIN
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Inspected
from tuning.engines.wire.protocol import ModelFile, NetworkSpec
from tuning.host import pytorch, targets
from tuning.host.private import TooLarge, copied
from tuning.models import Extraction, Network, Project, fingerprint, networks_dir
from tuning.queue import jobs
from tuning.storage import store
from tuning.storage.local import old_here
from tuning.validation import Conflict, Invalid, gather, natural, unknown, wrong_dims
from tuning.wording import target_label
from tuning.work import inspection

from .launching import NetworkChoice, network_choice

Format = Literal["onnx", "irmodule", "pt2"]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
LARGEST_DIM = 1_000_000
MOST_BATCHES = 8
"""Values of a dimension at once, each of which makes a network."""
READ_BYTES = 1 << 20
OLD = timedelta(hours=1)
"""Files without a model are removed at this age: a younger one may belong to a row that isn't committed yet."""
INCOMING = "incoming-"
"""Prefix of files that are still being checked."""
HAS_CHECKS = "It has regression checks: delete these first."
NOTHING_KNOWN = "Only its name is known, so it has no tasks to extract."
HAS_RUNS = "It has runs, and can't be deleted while they exist. Deleted runs count until they are removed for good."


def stored(name: str, options: dict[str, Any], project: Project | None) -> Network:
    """The row of a built-in network, which gets one when it is first used with these options, or of the project's model."""
    if name not in BUILTIN:
        return Network.objects.get(project=project, name=name)
    defaults = {"name": name, "options": options}
    known = Network.objects.get_or_create(project=None, fingerprint=fingerprint(name, options), defaults=defaults)
    return known[0]


def upload(
    file: File[bytes],
    project: Project,
    user: User | None,
    *,
    name: str = "",
    dims: Mapping[str, Any] | None = None,
) -> tuple[Network, bool]:
    """Check a model and keep it for a project; returns the network and whether it is new.

    One of the dimensions may have several values, as a list or in a text: each makes a network, and the first one's is returned. In a project, the
    same file with the same dimensions is the same network, even under another name. Raises `Invalid` that names the fields at fault
    (`file`, `name`, `dims.N`); then nothing is kept.
    """
    file_name, values = file.name or "", _dims(dims or {})
    names = _names(name, file_name, values, project)
    with _incoming(file) as (path, sha256):
        kind = _kind(path, file_name)
        digests = [fingerprint(kind, sha256, one) for one in values]
        known = {one.fingerprint: one for one in project.networks.filter(fingerprint__in=digests)}
        if all(digest in known for digest in digests):
            return known[digests[0]], False
        with _readable(kind, path, sha256, values) as model:
            made = {
                digest: Network(
                    project=project,
                    kind=model.kind,
                    name=own_name,
                    fingerprint=digest,
                    sha256=model.sha256,
                    file_name=_shown(file_name),
                    size=model.path.stat().st_size,
                    source=model.source,
                    dims=one,
                    uploaded_by=user,
                    uploaded_at=timezone.now(),
                    **inspection.summary(_inspected(ModelFile(model.kind, str(model.path), one))),
                )
                for digest, own_name, one in zip(digests, names, values, strict=True)
                if digest not in known
            }
            return _kept(list(made.values()), model.path, (known | made)[digests[0]])


class _Model(NamedTuple):
    """A file that engines read."""

    kind: Literal["onnx", "irmodule"]
    path: Path
    sha256: str
    source: dict[str, Any] | None
    """What it was converted from; None if it is the uploaded file."""


@contextmanager
def _readable(kind: Format, path: Path, sha256: str, values: Sequence[Mapping[str, int]]) -> Iterator[_Model]:
    """The uploaded file, or what it was converted to. Raises `Invalid`."""
    if kind != "pt2":
        yield _Model(kind, path, sha256, None)
        return
    with TemporaryDirectory(prefix=INCOMING, dir=networks_dir(), ignore_cleanup_errors=True) as folder:
        made = _converted(path, values, Path(folder))
        source = {
            "format": kind,
            "sha256": sha256,
            "size": path.stat().st_size,
            "saved_by": made.saved_by,
            "versions": made.versions,
        }
        with made.path.open("rb") as opened, _incoming(File(opened)) as (onnx, digest):
            yield _Model("onnx", onnx, digest, source)


def _converted(path: Path, values: Sequence[Mapping[str, int]], folder: Path) -> pytorch.Made:
    try:
        made = pytorch.convert(path, values, folder)
    except Refused as refused:
        raise Invalid({"file": str(refused)}) from refused
    if made.path.is_symlink() or not made.path.is_file():  # The process that wrote it had read an upload.
        raise Invalid({"file": "PyTorch's process wrote no file."})
    return made


def delete(network: Network) -> None:
    """Delete an uploaded model and its file. Raises `Invalid` if it is built in, `Conflict` if it has runs."""
    if not network.is_uploaded:
        raise Invalid({"network": "A built-in network can't be deleted."})
    file, shared = network.file, Network.objects.filter(sha256=network.sha256).exclude(pk=network.pk)
    with audit.act("network.delete", audit.Thing("network", network.pk, network.name)):
        try:
            network.delete()
        except ProtectedError as error:
            raise Conflict(HAS_CHECKS if network.regression_checks.exists() else HAS_RUNS) from error
        if not shared.exists():
            # After the commit: if the transaction fails, the file must still be there.
            transaction.on_commit(lambda: store().remove(file))


def extract_tasks(data: Mapping[str, Any], user: User | None) -> Extraction:
    """Queue the extraction of a network's tasks for a target, unless it is done; a failed one is tried again.

    `data` is a `NetworkChoice`. Raises `Invalid` that names the fields at fault.
    """
    if wrong := unknown(data, NetworkChoice.__struct_fields__):
        raise Invalid(wrong)
    return extract_tasks_of(stored(*network_choice(data, user)), data.get("target"), user)


class ExtractionCheckDict(TypedDict):
    """The errors of an extraction by field; `target` is the resolved target's label."""

    fields: dict[str, str]
    target: str | None


def check_extraction(data: Mapping[str, Any], user: User | None) -> ExtractionCheckDict:
    """Check an extraction without starting it; `data` as for `extract_tasks`."""
    wrong = unknown(data, NetworkChoice.__struct_fields__)
    gather(wrong, network_choice, data, user)
    return _checked_extraction(wrong, data.get("target"))


def check_extraction_of(network: Network, target: Any) -> ExtractionCheckDict:
    """The same of a network that is known."""
    return _checked_extraction({} if network.can_tune else {"network": NOTHING_KNOWN}, target)


def _checked_extraction(wrong: dict[str, str], target: Any) -> ExtractionCheckDict:
    resolved = gather(wrong, lambda: _resolved(targets.asked(target)))
    return {"fields": wrong, "target": None if resolved is None else target_label(resolved)}


def extract_tasks_of(network: Network, target: Any, user: User | None) -> Extraction:
    """The same of a network that is known. Raises `Invalid` for `target`."""
    if not network.can_tune:
        raise Invalid({"network": NOTHING_KNOWN})
    made, due = _requested(network, target, user)
    if due:
        jobs.enqueue(made)
    return made


def _requested(network: Network, target: Any, user: User | None) -> tuple[Extraction, bool]:
    """The extraction for a target as the user entered it, and whether it must be queued. Raises `Invalid` for `target`."""
    resolved = _resolved(targets.asked(target))
    with transaction.atomic():
        made, new = Extraction.objects.get_or_create(
            network=network, fingerprint=fingerprint(resolved), defaults={"target": resolved, "created_by": user}
        )
        due = new or made.requeue(Extraction.Status.FAILED)
        if due:
            audit.record("network.extract", network, extraction=made.pk, target=target_label(resolved))
    return made, due


def _resolved(asked: str | dict[str, Any]) -> dict[str, Any]:
    """The target resolved for this machine, or else for a remote device: an extraction runs nothing on it."""
    try:
        return targets.resolve(asked)["target"]
    except Invalid:
        return targets.resolve_elsewhere(asked)["target"]


def tidy() -> int:
    """Remove files that a crash during an upload left behind; returns their number."""
    known = set(Network.objects.uploaded().values_list("sha256", flat=True))
    left = [path for path in store().old(networks_dir(), OLD) if path.stem not in known]
    left += old_here(Path(settings.FILE_UPLOAD_TEMP_DIR).glob("*.upload*"), OLD)
    for path in left:
        store().remove(path)
    return len(left)


def _dims(given: Mapping[str, Any]) -> list[dict[str, int]]:
    """The values of the dimensions of each network that is to be made."""
    values: dict[str, list[int]] = {}
    wrong = {}
    for name, value in given.items():
        found, trouble = _extents(value)
        values[str(name)] = found
        if trouble:
            wrong[f"dims.{name}"] = trouble
        elif len(found) > 1 and any(len(others) > 1 for other, others in values.items() if other != name):
            wrong[f"dims.{name}"] = "Only one dimension can have several values."
    if wrong:
        raise Invalid(wrong)
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


def _extents(value: Any) -> tuple[list[int], str]:
    """The values of a dimension, and what is wrong with them."""
    texts = [str(one).strip() for one in (value if isinstance(value, list) else str(value).split(","))]
    extents = [None if one in ("True", "False") else natural(one) for one in texts]
    found = [one for one in extents if one is not None and 1 <= one <= LARGEST_DIM]
    if len(found) < len(texts) or not texts:
        bad = next((text for text, one in zip(texts, extents, strict=True) if one not in found), "")
        return [], f"Must be a whole number from 1 to {LARGEST_DIM:,}, not {bad[:60]!r}."
    if len(set(found)) < len(found):
        return [], "Has a value twice."
    return found, "" if len(found) <= MOST_BATCHES else f"At most {MOST_BATCHES} values, not {len(found):,}."


def _names(name: str, file_name: str, values: Sequence[Mapping[str, int]], project: Project) -> list[str]:
    """A name for the network with each of these values: the chosen one, or the file's, with a number if it is taken in the project."""
    first, *others = values
    several = [dim for dim in first if any(other[dim] != first[dim] for other in others)]
    endings = ["".join(f"-{_tame(dim)}{one[dim]}" for dim in several) for one in values]
    if name := name.strip():
        _check_name(name, endings, project)
        return [f"{name}{ending}" for ending in endings]
    stem = _tame(Path(_shown(file_name)).stem)[:90].strip("-._+") or "model"
    taken = {*BUILTIN, *project.networks.values_list("name", flat=True)}
    stems = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(
        names for names in ([f"{one}{ending}" for ending in endings] for one in stems) if taken.isdisjoint(names)
    )


def _check_name(name: str, endings: Sequence[str], project: Project) -> None:
    names = [f"{name}{ending}" for ending in endings]
    if not all(map(NAME.fullmatch, names)):
        raise Invalid(
            {"name": "Must be letters, digits and . _ + - only, at most 100, and begin with a letter or digit."}
        )
    if not BUILTIN.keys().isdisjoint(names):
        raise Invalid({"name": "A built-in network has that name."})
    if project.networks.filter(name__in=names).exists():
        raise Invalid({"name": "Another network has that name."})


def _tame(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-._+")


def _shown(file_name: str) -> str:
    return (
        "".join(char for char in file_name.replace("\\", "/").rpartition("/")[2] if char.isprintable())[:255] or "model"
    )


@contextmanager
def _incoming(file: File[bytes]) -> Iterator[tuple[Path, str]]:
    """A temporary copy of the file and its SHA-256. Raises `Invalid` if it is too large."""
    networks_dir().mkdir(parents=True, exist_ok=True)
    path = networks_dir() / f"{INCOMING}{uuid.uuid4().hex}"
    try:
        pieces = iter(lambda: file.read(READ_BYTES), b"")
        yield path, copied(pieces, path, settings.UPLOAD_MB << 20)[1]
    except TooLarge as error:
        limit = f"{settings.UPLOAD_MB:,} MiB, the limit for uploads (TUNEBOARD_UPLOAD_MB)"
        raise Invalid({"file": f"Larger than {limit}."}) from error
    finally:
        path.unlink(missing_ok=True)


def _kind(path: Path, file_name: str) -> Format:
    """Told by the content: JSON begins with a brace, an archive with PK, a pickle with 0x80. A broken file goes by its name.

    An ONNX model begins with none of these. Archives and pickles are told apart by the process that reads them.
    """
    with path.open("rb") as file:
        beginning = file.read(64)
    if beginning.startswith((b"PK", b"\x80")) or file_name.lower().endswith((".pt2", ".pt", ".pth")):
        return "pt2"
    is_json = beginning.lstrip().startswith(b"{")
    return "irmodule" if is_json or file_name.lower().endswith(".json") else "onnx"


def _inspected(file: ModelFile) -> Inspected:
    try:
        return inspection.inspect(NetworkSpec("uploaded", file=file))
    except Refused as refused:
        if refused.dims is None:
            raise Invalid({"file": str(refused)}) from refused
        raise Invalid(wrong_dims(file.dims, refused.dims)) from refused


def _kept(networks: Sequence[Network], path: Path, first: Network) -> tuple[Network, bool]:
    """Store rows and their file, all or nothing: a crash in between leaves a file that `tidy` removes."""
    prepared = store().prepare(path)
    try:
        with transaction.atomic():
            for network in networks:
                uploaded = network.uploaded_file
                about = {"file": network.file_name, "bytes": uploaded["size"], "sha256": uploaded["sha256"]}
                with audit.act("network.upload", network, **about):
                    network.save(force_insert=True)
            prepared.add(networks[0].file)
            path.replace(networks[0].file)
    except IntegrityError as error:
        # Another upload of the same file or name was faster.
        if known := Network.objects.filter(project=first.project, fingerprint=first.fingerprint).first():
            return known, False
        raise Invalid({"name": "Another network has that name."}) from error
    return first, True
