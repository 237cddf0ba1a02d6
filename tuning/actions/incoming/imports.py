"""Import log files: take them in, cancel, and remove what nobody needs."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from django.conf import settings
from django.contrib.auth.models import User
from msgspec import Meta

from tuning import audit
from tuning.actions import projects
from tuning.actions.launching import NAME_LENGTH
from tuning.actions.projects import LAUNCH
from tuning.host.private import copied
from tuning.models import Import, Project
from tuning.models.imported import imports_dir
from tuning.queue import jobs
from tuning.storage import store
from tuning.validation import Busy, Conflict, Invalid, gather, unknown
from tuning.work.importing import LogFile, open_log

Status = Import.Status
READ_BYTES = 1 << 20
OLD = timedelta(hours=1)
"""Folders without an import are removed at this age: a younger one may belong to a row that isn't committed yet."""
INCOMING = "incoming-"
"""Prefix of folders that aren't an import's yet."""
NETWORK_LENGTH = 100
NAME_OF_FILE = 500
MOST_WEIGHTS = 10_000
Weight = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Upload(Protocol):
    """An uploaded file."""

    def chunks(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Its content, piece by piece."""


class ImportOptions(msgspec.Struct):
    """What to call the runs and what the logs don't say of them."""

    name: Annotated[str, Meta(description="The runs' name. By default, that of the file.")] = ""
    network: Annotated[str, Meta(description="The network that was tuned, by name. By default it isn't recorded.")] = ""
    weights: Annotated[
        dict[str, int],
        Meta(description="How often tasks occur in the network, by name or hash, where the logs don't say it."),
    ] = {}
    again: Annotated[
        bool, Meta(description="Import records again that a run of the project has, instead of naming that run.")
    ] = False
    project: Annotated[str, Meta(description="A project, by name. It can be left out by those who have only one.")] = ""


def start(files: Sequence[tuple[str, Upload]], data: Mapping[str, Any], user: User | None) -> Import:
    """Keep uploaded files, each with its name, and queue their import. `data` is as `ImportOptions`.

    Raises `Invalid` that names the fields at fault (`files`, `name`, …) or `Busy`; then nothing is kept.
    """
    project, options = checked(data, user)
    if not files:
        raise Invalid({"files": "Choose at least one file."})
    _check_turn(user)
    folder = imports_dir() / f"{INCOMING}{uuid.uuid4().hex}"
    try:
        about = _kept(files, folder)
        source = _stored(Import(project=project, options=options, files=about, created_by=user), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    jobs.enqueue(source)
    return source


def start_here(paths: Sequence[Path], data: Mapping[str, Any]) -> tuple[Import, list[LogFile]]:
    """Record an import of files of this machine, which the caller claims and carries out. Raises `Invalid` or `OSError`."""
    project, options = checked(data, None)
    found = list(_below(paths))
    if not found:
        raise Invalid({"files": "There is no file."})
    about = [{"name": name, **_size_and_digest(path)} for name, path in found]
    return _stored(Import(project=project, options=options, files=about)), found


def cancel(source: Import) -> Import:
    """End a queued import at once, and a running one as soon as its job notices; nothing of it is left. Raises `Conflict`."""
    with audit.act("import.cancel", audit.Thing("import", source.pk, str(source))):
        if source.end(Status.QUEUED, to=Status.CANCELLED):
            store().remove(source.uploads)
        elif not source.move(Status.RUNNING, to=Status.CANCELLING):
            source.refresh_from_db(fields=("status",))
            raise Conflict(f"The import is {source.status}: only a queued or running one can be cancelled.")
    return source


def tidy() -> None:
    """Remove files of imports that have ended, or whose row was never committed."""
    waiting = Import.objects.exclude(status__in=Import.ENDED)
    known = {source.uploads for source in waiting}
    for folder in store().old(imports_dir(), OLD):
        if folder not in known:
            store().remove(folder)


def checked(data: Mapping[str, Any], user: User | None) -> tuple[Project, dict[str, Any]]:
    """The project, and the options as they are stored. Raises `Invalid` that names every field at fault."""
    wrong = unknown(data, ImportOptions.__struct_fields__)
    project = gather(wrong, projects.chosen, data.get("project"), user, LAUNCH)
    options = {
        "name": gather(wrong, _text, "name", data.get("name"), NAME_LENGTH),
        "network": gather(wrong, _text, "network", data.get("network"), NETWORK_LENGTH),
        "weights": gather(wrong, _weights, data.get("weights")),
        "again": gather(wrong, _again, data.get("again")),
    }
    if wrong:
        raise Invalid(wrong)
    return project, options


def _stored(source: Import, folder: Path | None = None) -> Import:
    """Store the row, and rename the folder with its files within the transaction: both or neither."""
    files = [folder / str(place) for place in range(len(source.files))] if folder else []
    prepared = [store().prepare(file) for file in files]
    source.bytes_total = sum(file["size"] for file in source.files)
    about = {"project": source.project.name, "files": len(source.files), "bytes": source.bytes_total}
    with audit.act("import.start", None, **about) as act:
        source.save()
        act.of = audit.Thing("import", source.pk, _title(source.files[0]["name"], len(source.files)))
        for file, each in zip(files, prepared, strict=True):
            each.add(source.uploads / file.name)
        if folder is not None:
            folder.rename(source.uploads)
    return source


def _check_turn(user: User | None) -> None:
    """Raises `Busy` if the user has as many imports going on as anybody may."""
    going_on = Import.objects.filter(created_by=user).exclude(status__in=Import.ENDED).count()
    if user is not None and going_on >= settings.IMPORTS_PER_USER:
        raise Busy(
            f"You already have {going_on} imports in progress, the most at once. Try again in a minute.", own=True
        )


def _text(field: str, given: Any, longest: int) -> str:
    text = given.strip() if isinstance(given, str) else ""
    if (given is not None and not isinstance(given, str)) or len(text) > longest or not text.isprintable():
        raise Invalid({field: f"Must be text of at most {longest} characters."})
    return text


def _weights(given: Any) -> dict[str, int]:
    """An object, or one as JSON. Raises `Invalid`."""
    if given in (None, ""):
        return {}
    try:
        found = msgspec.json.decode(given) if isinstance(given, (str, bytes)) else given
        weights = msgspec.convert(found, dict[str, Weight])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        text = 'Must be a JSON object of tasks and how often they occur, such as {"fused_matmul": 2}'
        raise Invalid({"weights": f"{text}: {error}"[:500]}) from error
    if len(weights) > MOST_WEIGHTS:
        raise Invalid({"weights": f"There are {len(weights):,} of them, more than {MOST_WEIGHTS:,}."})
    return weights


def _again(given: Any) -> bool:
    values = {"": False, "false": False, "off": False, "true": True, "on": True, "1": True, "0": False}
    text = "" if given is None else str(given).lower()
    if text not in values:
        raise Invalid({"again": "Must be true or false."})
    return values[text]


def _kept(files: Sequence[tuple[str, Upload]], folder: Path) -> list[dict[str, Any]]:
    """Write the files to the folder, by their places; what is stored about them."""
    folder.mkdir(parents=True, mode=0o700)
    about: list[dict[str, Any]] = []
    for place, (name, file) in enumerate(files):
        size, digest = copied(file.chunks(READ_BYTES), folder / str(place))
        about.append({"name": _shown(name) or f"file {place + 1}", "size": size, "sha256": digest})
    return about


def _shown(name: str) -> str:
    """The file's name with its folders. It is shown, and tells which files belong together; it is never used as a path."""
    parts = name.replace("\\", "/").split("/")
    kept = ("".join(char for char in part if char.isprintable()) for part in parts)
    return "/".join(part for part in kept if part not in ("", ".", ".."))[-NAME_OF_FILE:]


def _title(name: str, count: int) -> str:
    return _shown(name) if count == 1 else f"{_shown(name)} and {count - 1} more"


def _below(paths: Sequence[Path]) -> Iterator[LogFile]:
    """All files, those of a folder with its name. Links inside of a folder aren't followed."""
    for path in paths:
        named = path.resolve(strict=True)
        if not named.is_dir():
            yield path.name, named
            continue
        for each in sorted(named.rglob("*")):
            if each.is_file() and not each.is_symlink():
                yield f"{named.name}/{each.relative_to(named).as_posix()}", each


def _size_and_digest(path: Path) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with open_log(path) as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
            size += len(piece)
    return {"size": size, "sha256": digest.hexdigest()}
