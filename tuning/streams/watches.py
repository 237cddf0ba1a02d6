"""Starts watches: of a file in one of the allowed folders by a worker, or of any file by a command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from tuning import audit
from tuning.actions import projects
from tuning.actions.launching import run_name
from tuning.models import Network, Project, Run, Watch
from tuning.notify.announce import announce_status
from tuning.queue import jobs
from tuning.validation import Conflict, Invalid, gather
from tuning.wording import numbered
from tuning.work.elsewhere import watching
from tuning.work.elsewhere.firsts import first_trial, record_file

from .limits import check_watches


def start(path: Any, user: User, *, name: Any = "", network: Any = "", project: Any = "") -> Run:
    """Have a worker watch a file of an allowed folder. Raises `Invalid`, `Conflict` or `Busy`."""
    wrong: dict[str, str] = {}
    of = gather(wrong, projects.chosen, project, user, projects.LAUNCH)
    file = gather(wrong, _allowed, path)
    if wrong:
        raise Invalid(wrong)
    check_watches(user)
    run = begun(file, user, of, name=name, network=network, foreground=False)
    if run is None:
        raise Invalid({"path": "The file has no record yet. Watch it once the first one is there."})
    jobs.enqueue(run)
    return run


def begun(  # noqa: PLR0913 - what a form or a command says
    file: Path, user: User | None, project: Project, *, name: Any = "", network: Any = "", foreground: bool
) -> Run | None:
    """A queued run of the file, or the one that was made of it before; None while the file has no record. Raises `Invalid` or `Conflict`."""
    try:
        first = first_trial(file)
    except OSError as error:
        raise Invalid({"path": f"It can't be read: {error.strerror}."}) from error
    if first is None:
        return None
    known = list(Watch.objects.of_file(str(file), project))
    with audit.act("run.watch", path=str(file)) as act:
        if known:
            act.of = run = known[0].run
            _again(known, foreground=foreground)
        else:
            task, engine = first
            called = str(network or "").strip()
            about = {"engine": engine, "target": task.target or {}, "created_by": user}
            run = act.of = watching.begun(
                Watch(project=project, path=str(file), foreground=foreground),
                name=run_name(name or called or file.stem),
                network=Network.objects.called(called[:100], project) if called else None,
                **about,
            )
    announce_status(run)
    return run


def _again(known: Sequence[Watch], *, foreground: bool) -> None:
    """Queue the runs of the file again, the latest of each target. Raises `Conflict`."""
    if busy := [watch.run_id for watch in known if watch.run.status not in Run.ENDED]:
        raise Conflict(f"{numbered(busy).capitalize()} already {'watch' if len(busy) > 1 else 'watches'} this file.")
    for watch in {watch.run.target_fingerprint: watch for watch in known}.values():
        if not watch.run.requeue(*Run.ENDED):
            raise Conflict(f"Run {watch.run_id} already watches this file.")
        Watch.objects.filter(pk=watch.pk).update(foreground=foreground)


def _allowed(path: Any) -> Path:
    """The file, if it is below an allowed folder wherever links lead. Raises `Invalid`."""
    if not isinstance(path, str) or not path.strip():
        raise Invalid({"path": "Enter the path of a record file."})
    folders = [Path(folder).resolve() for folder in settings.WATCH_FOLDERS]
    given = Path(path.strip())
    file = record_file(given).resolve() if given.is_absolute() else given
    if not any(file.is_relative_to(folder) for folder in folders):
        allowed = ", ".join(map(str, folders)) or "none"
        raise Invalid({"path": f"It must be below one of the allowed folders: {allowed}."})
    if not file.is_file():
        raise Invalid({"path": "There is no such file."})
    return file
