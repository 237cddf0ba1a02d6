"""Upload and delete models."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from tuning import audit
from tuning.beneath import NotRegular
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Inspected
from tuning.engines.wire.protocol import ModelFile, NetworkSpec
from tuning.host import pytorch
from tuning.host.private import TooLarge, copied
from tuning.models import Network, Project, fingerprint, networks_dir
from tuning.storage import store
from tuning.storage.local import old_here, open_here
from tuning.validation import Conflict, Invalid, wrong_dims
from tuning.work import inspection

from . import float_models
from .naming import Format, dims_of_each, format_of, names_of_each, shown

READ_BYTES = 1 << 20
OLD = timedelta(hours=1)
"""Files without a model are removed at this age: a younger one may belong to a row that isn't committed yet."""
INCOMING = "incoming-"
"""Prefix of files that are still being checked."""
HAS_CHECKS = "It has regression checks: delete these first."
HAS_RUNS = "It has runs, and can't be deleted while they exist. Deleted runs count until they are removed for good."


def upload(  # noqa: PLR0913 - what a user says of a model
    file: File[bytes],
    project: Project,
    user: User | None,
    *,
    name: str = "",
    dims: Mapping[str, Any] | None = None,
    float_model: Network | None = None,
) -> tuple[Network, bool]:
    """Check a model and keep it for a project; returns the network and whether it is new.

    One of the dimensions may have several values, as a list or in a text: each makes a network, and the first one's is returned. In a project, the
    same file with the same dimensions is the same network, even under another name. Raises `Invalid` that names the fields at fault
    (`file`, `name`, `dims.N`, `float_model`); then nothing is kept.
    """
    file_name, values = file.name or "", dims_of_each(dims or {})
    names = names_of_each(name, file_name, values, project)
    with _incoming(file) as (path, sha256):
        kind = format_of(path, file_name)
        digests = [fingerprint(kind, sha256, one) for one in values]
        known = {one.fingerprint: one for one in project.networks.filter(fingerprint__in=digests)}
        if all(digest in known for digest in digests):
            if float_model:
                float_models.choose(known[digests[0]], float_model.pk)
            return known[digests[0]], False
        with _readable(kind, path, sha256, values) as model:
            made = {
                digest: Network(
                    project=project,
                    kind=model.kind,
                    name=own_name,
                    fingerprint=digest,
                    sha256=model.sha256,
                    file_name=shown(file_name),
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
            return _kept(list(made.values()), model.path, (known | made)[digests[0]], float_model)


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
        made, onnx_file = _converted(path, values, Path(folder))
        source = {
            "format": kind,
            "sha256": sha256,
            "size": path.stat().st_size,
            "saved_by": made.saved_by,
            "versions": made.versions,
        }
        with onnx_file, _incoming(File(onnx_file)) as (onnx, digest):
            yield _Model("onnx", onnx, digest, source)


def _converted(path: Path, values: Sequence[Mapping[str, int]], folder: Path) -> tuple[pytorch.Made, BinaryIO]:
    """What was made of the program, and the opened file: the process that wrote it had read an upload. Raises `Invalid`."""
    try:
        made = pytorch.convert(path, values, folder)
        return made, open_here(made.path)
    except Refused as refused:
        raise Invalid({"file": str(refused)}) from refused
    except (FileNotFoundError, NotRegular) as error:
        raise Invalid({"file": "PyTorch's process wrote no file."}) from error


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


def tidy() -> int:
    """Remove files that a crash during an upload left behind; returns their number."""
    known = set(Network.objects.uploaded().values_list("sha256", flat=True))
    left = [path for path in store().old(networks_dir(), OLD) if path.stem not in known]
    left += old_here(Path(settings.FILE_UPLOAD_TEMP_DIR).glob("*.upload*"), OLD)
    for path in left:
        store().remove(path)
    return len(left)


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


def _inspected(file: ModelFile) -> Inspected:
    try:
        return inspection.inspect(NetworkSpec("uploaded", file=file))
    except Refused as refused:
        if refused.dims is None:
            raise Invalid({"file": str(refused)}) from refused
        raise Invalid(wrong_dims(file.dims, refused.dims)) from refused


def _kept(networks: Sequence[Network], path: Path, first: Network, float_model: Network | None) -> tuple[Network, bool]:
    """Store rows and their file, all or nothing: a crash in between leaves a file that `tidy` removes."""
    prepared = store().prepare(path)
    try:
        with transaction.atomic():
            for network in networks:
                uploaded = network.uploaded_file
                about = {"file": network.file_name, "bytes": uploaded["size"], "sha256": uploaded["sha256"]}
                with audit.act("network.upload", network, **about):
                    network.save(force_insert=True)
                if float_model:
                    float_models.choose(network, float_model.pk)
            prepared.add(networks[0].file)
            path.replace(networks[0].file)
    except IntegrityError as error:
        # Another upload of the same file or name was faster.
        if known := Network.objects.filter(project=first.project, fingerprint=first.fingerprint).first():
            return known, False
        raise Invalid({"name": "Another network has that name."}) from error
    return first, True
