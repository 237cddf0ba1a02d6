"""What people write about a run: its name and notes. Two who edit at once lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.auth.models import User

from tuning.models import Run
from tuning.notify.announce import announce_status
from tuning.validation import Conflict, Invalid, unknown

from .orders import run_name

NOTES_BYTES = 64 * 1024
"""Of a run's notes, as UTF-8."""
TOO_LONG = f"Notes may have at most {NOTES_BYTES // 1024} KiB ({NOTES_BYTES:,} bytes)."


class Outdated(Conflict):
    """Somebody else edited the run since: `run` is what it is now."""

    def __init__(self, run: Run) -> None:
        who = run.edited_by.get_username() if run.edited_by else "Somebody"
        super().__init__(
            f"{who} edited name or notes meanwhile: the run is at revision {run.revision}. Nothing was changed."
        )
        self.run = run


def edit(run: Run, data: Mapping[str, Any], user: User | None) -> Run:
    """Store a new name, new notes or both, as edited from `revision` on. Watchers are told.

    What is as it was already is no edit, so to send one again does no harm. Raises `Invalid` naming every field at fault, and
    `Outdated`; then nothing is stored.
    """
    revision, values = _checked(data)
    if all(getattr(run, name) == value for name, value in values.items()):
        return run
    if not run.revise(revision, **values, edited_by=user):
        raise Outdated(run)
    announce_status(run)
    return run


def notes_text(given: Any) -> str:
    """Notes as they are stored. Raises `Invalid`."""
    if not isinstance(given, str):
        raise Invalid({"notes": "Must be text."})
    text = given.replace("\r\n", "\n").replace("\r", "\n")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid({"notes": "Must be text: half of a surrogate pair is none."}) from None
    if "\0" in text:
        raise Invalid({"notes": "Must be text without the character NUL."})
    if size > NOTES_BYTES:
        raise Invalid({"notes": f"{TOO_LONG} These have {size:,}."})
    return text


def _checked(data: Mapping[str, Any]) -> tuple[int, dict[str, str]]:
    """The revision and the new values, by name."""
    wrong = unknown(data, KNOWN)
    values: dict[str, str] = {}
    for name in WRITTEN.keys() & data.keys():
        try:
            values[name] = WRITTEN[name](data[name])
        except Invalid as error:
            wrong.update(error.fields)
    revision = data.get("revision")
    if not isinstance(revision, int) or isinstance(revision, bool):
        wrong["revision"] = "Say which revision was edited, a whole number: GET gives it."
    if not wrong and not values:
        wrong["notes"] = "Give a new name, new notes, or both."
    if wrong or not isinstance(revision, int):
        raise Invalid(wrong)
    return revision, values


WRITTEN: dict[str, Callable[[Any], str]] = {"name": run_name, "notes": notes_text}
KNOWN = (*WRITTEN, "revision")
