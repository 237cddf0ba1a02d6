"""Whether the place that TUNEBOARD_STORAGE says can be used, and has the site's files."""

from __future__ import annotations

from . import objects
from .moving import misplaced
from .shared import SharedStore
from .store import store


def trouble() -> str | None:
    """Why files can't be stored, in one line; None if they can."""
    found = store()
    if not isinstance(found, SharedStore) or not found.place:
        return None
    return objects.trouble(found.place)


def advice() -> str | None:
    """What to do about files that are elsewhere, in one line; None if there are none."""
    if not (count := misplaced()):
        return None
    files = "1 file isn't" if count == 1 else f"{count:,} files aren't"
    return f"{files} where TUNEBOARD_STORAGE says. Stop the site, then move what is elsewhere: manage.py move_files"
