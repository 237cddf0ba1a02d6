"""Edit a run's name and notes. Of two edits of the same revision the second is refused, so none is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from django.contrib.auth.models import User
from msgspec import UNSET, Meta, UnsetType

from tuning import audit
from tuning.models import Run
from tuning.notify.announce import announce_status
from tuning.validation import Conflict, Invalid, gather, unknown

from .launching import NAME_LENGTH, run_name

NOTES_BYTES = 64 * 1024
"""In UTF-8."""
TOO_LONG = f"Notes may have at most {NOTES_BYTES // 1024} KiB ({NOTES_BYTES:,} bytes)."


class Edit(msgspec.Struct):
    """A new name, new notes or both."""

    revision: Annotated[int, Meta(description="The run's revision that was edited.")]
    name: Annotated[str, Meta(max_length=NAME_LENGTH, description="One line.")] | UnsetType = UNSET
    notes: Annotated[str, Meta(description=f"Markdown, at most {NOTES_BYTES:,} bytes of UTF-8.")] | UnsetType = UNSET


class Outdated(Conflict):
    """Somebody else has edited the run; `run` is its current state."""

    def __init__(self, run: Run) -> None:
        who = run.edited_by.get_username() if run.edited_by else "Somebody"
        super().__init__(
            f"{who} has edited the name or notes in the meantime: the run is at revision {run.revision}. "
            "Nothing was changed."
        )
        self.run = run


def edit(run: Run, data: Mapping[str, Any], user: User | None) -> Run:
    """Store an `Edit` and announce it.

    Sending the same edit twice does no harm: an edit that changes nothing is not stored. Raises `Invalid` that names every
    field at fault, or `Outdated`; then nothing is stored.
    """
    revision, values = _checked(data)
    if all(getattr(run, name) == value for name, value in values.items()):
        return run
    with audit.act("run.edit", run, **_changes(run, values)):
        if not run.revise(revision, **values, edited_by=user):
            raise Outdated(run)
    announce_status(run)
    return run


def _changes(run: Run, values: Mapping[str, str]) -> dict[str, Any]:
    """What the edit changes; of notes, which may be long, only their length."""
    changed: dict[str, dict[str, Any]] = {
        name: {"from": getattr(run, name), "to": value} for name, value in values.items() if getattr(run, name) != value
    }
    if notes := changed.pop("notes", None):
        changed["notes_characters"] = {when: len(text) for when, text in notes.items()}
    return changed


def notes_text(given: Any) -> str:
    """Notes as they are stored, with Unix line ends. Raises `Invalid`."""
    if not isinstance(given, str):
        raise Invalid({"notes": "Must be text."})
    text = given.replace("\r\n", "\n").replace("\r", "\n")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid({"notes": "Must be text without unpaired surrogates."}) from None
    if "\0" in text:
        raise Invalid({"notes": "Must be text without NUL characters."})
    if size > NOTES_BYTES:
        raise Invalid({"notes": f"{TOO_LONG} These are {size:,}."})
    return text


def _checked(data: Mapping[str, Any]) -> tuple[int, dict[str, str]]:
    """The revision and the new values by name."""
    wrong = unknown(data, Edit.__struct_fields__)
    values = {name: gather(wrong, TEXTS[name], data[name]) for name in TEXTS.keys() & data.keys()}
    revision = data.get("revision")
    if not isinstance(revision, int) or isinstance(revision, bool):
        wrong["revision"] = "Must be the revision that was edited, a whole number: GET returns it."
    if not wrong and not values:
        wrong["notes"] = "Give a new name, new notes, or both."
    if wrong or not isinstance(revision, int):
        raise Invalid(wrong)
    return revision, values


TEXTS: dict[str, Callable[[Any], str]] = {"name": run_name, "notes": notes_text}
