"""Shared by `backup` and `restore`: progress on a terminal, errors in one line, and the audit log."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from django.core.management import CommandError
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from tuning import audit
from tuning.audit import Thing
from tuning.backup import making
from tuning.backup.archive import Damaged
from tuning.backup.database import Trouble
from tuning.backup.manifest import Unfit
from tuning.backup.restoring import Occupied
from tuning.host import schema

from .foreground import console

NICENESS = 10
"""Runs measure on this machine meanwhile."""


class Shown(making.Progress):
    """A line on stderr, if that is a terminal."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.step = bar.add_task("", total=None)

    def begin(self, what: str, total: int | None = None) -> None:
        self.bar.reset(self.step, description=what, total=total)

    def advance(self, size: int) -> None:
        self.bar.advance(self.step, size)


@contextlib.contextmanager
def working(file: Path, stderr: object) -> Iterator[making.Progress]:
    """Show progress, give way to other processes, and turn what goes wrong into a `CommandError`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # So that temporary files are removed.
    os.nice(NICENESS)
    screen = console(stderr)  # type: ignore[arg-type]
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(binary_units=True))
    try:
        with Progress(*columns, console=screen, disable=not screen.is_terminal, transient=True) as bar:
            yield Shown(bar)
    except Damaged as error:
        raise CommandError(f"{file} can't be restored: {error}. Nothing was changed.") from error
    except Unfit as error:
        raise CommandError(f"{file} can't be restored here. {error} Nothing was changed.") from error
    except (Occupied, Trouble) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename or file}: {error.strerror or error}.") from error
    except KeyboardInterrupt:
        raise CommandError("Interrupted.", returncode=130) from None


def recorded(action: str, file: Path) -> None:
    """Tell the audit log of the database what was done, unless an earlier version made it: that may have no log."""
    if not schema.pending():
        with audit.acting_as(audit.command):
            audit.record(action, Thing("backup", name=file.name), file=str(file.absolute()))
