"""Tag, pin, archive, delete and restore runs, one or many at once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn

import msgspec
from django.contrib.auth.models import User
from django.utils import timezone
from msgspec import UNSET, Meta, UnsetType
from typing_extensions import TypedDict

from tuning import audit
from tuning.models import Compilation, Run, SideBySide, Tag
from tuning.models.tag import LONGEST
from tuning.validation import Conflict, Invalid, unknown

from .runs import stop

NAME = re.compile(r"\w[\w.+:@/-]*")
MOST_TAGS = 20
"""On one run."""
MOST_PINNED = 20
"""Pinned runs come first in the list."""
MOST_RUNS = 500
"""In one request."""
BUSY = (Compilation.Status.QUEUED, *Compilation.LIVE)
GONE = "There is no such run. It may have been deleted."
Tags = Annotated[list[str], Meta(max_length=MOST_TAGS)]


class Marks(msgspec.Struct):
    """What a run is marked with; a field that isn't given stays as it is."""

    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    add_tags: Tags | UnsetType = UNSET
    remove_tags: Tags | UnsetType = UNSET


class OutcomeDict(TypedDict):
    """The ids of the runs that were changed, and why the others weren't, by id."""

    action: str
    done: list[int]
    refused: dict[int, str]


def mark(run: Run, data: Mapping[str, Any]) -> None:
    """Change the run's `Marks`, all or nothing.

    Raises `Invalid` that names every field at fault, or `Conflict`.
    """
    wrong = unknown(data, Marks.__struct_fields__, "mark")
    for name in ("pinned", "archived"):
        if not isinstance(data.get(name, False), bool):
            wrong[name] = "Must be true or false."
    if data.get("pinned") is True and data.get("archived") is True:
        wrong["archived"] = "A run can't be both pinned and archived."
    if wrong:
        raise Invalid(wrong)
    with audit.together():
        change_tags(run, data.get("add_tags", []), data.get("remove_tags", []))
        if "archived" in data:
            (archive if data["archived"] else unarchive)(run)
        if "pinned" in data:
            (pin if data["pinned"] else unpin)(run)


def pin(run: Run) -> None:
    """Show the run first in the list. Raises `Conflict`."""
    with audit.act("run.pin", run):
        if Run.objects.filter(project=run.project_id, pinned=True).exclude(pk=run.pk).count() >= MOST_PINNED:
            raise Conflict(f"{MOST_PINNED} runs of the project are pinned already: unpin one of them first.")
        if not Run.objects.filter(pk=run.pk, archived=False).update(pinned=True):
            raise Conflict("The run is archived: unarchive it before you pin it.")


def unpin(run: Run) -> None:
    with audit.act("run.unpin", run):
        Run.objects.filter(pk=run.pk).update(pinned=False)


def archive(run: Run) -> None:
    """Unpin the run and leave it out of the list; it still counts for everything else."""
    with audit.act("run.archive", run):
        Run.objects.filter(pk=run.pk).update(archived=True, pinned=False)


def unarchive(run: Run) -> None:
    with audit.act("run.unarchive", run):
        Run.objects.filter(pk=run.pk).update(archived=False)


def delete(run: Run) -> None:
    """Hide the run everywhere until it is restored or purged. Raises `Conflict` while the run, a compilation or a measurement of it is going on."""
    ended = Run.objects.filter(pk=run.pk, status__in=Run.ENDED)
    with audit.act("run.delete", run):
        # Check and update are one statement, so nothing can begin in between.
        free = ended.exclude(compilations__status__in=BUSY).exclude(side_by_sides__status__in=SideBySide.LIVE)
        if not free.update(deleted_at=timezone.now()):
            _refuse_deletion(run)


def _refuse_deletion(run: Run) -> NoReturn:
    """Raises the `Conflict` that says why the run can't be deleted."""
    now = Run.objects.filter(pk=run.pk).first()
    if now is None:
        raise Conflict(GONE)
    if not now.can_delete:
        raise Conflict(f"The run is {now.status}: stop it before you delete it.")
    if now.side_by_sides.live().exists():
        raise Conflict("The run is being measured side by side with others: cancel that before you delete the run.")
    raise Conflict("The run is being compiled or benchmarked: cancel that before you delete the run.")


def restore(run: Run) -> None:
    """Undo the deletion of a run. Raises `Conflict`."""
    with audit.act("run.restore", run):
        if not Run.everything.restorable().filter(pk=run.pk).update(deleted_at=None):
            raise Conflict("The run can't be restored: it isn't deleted, or it has been removed for good.")


def change_tags(run: Run, add: Any = (), remove: Any = ()) -> None:
    """Add and remove tags, each given as a list or as text. Changes that others make at the same time are kept.

    Raises `Invalid` for `add_tags` or `remove_tags`; then nothing is changed.
    """
    more, less = tag_names(add, "add_tags"), tag_names(remove, "remove_tags")
    if both := sorted({*more} & {*less}):
        raise Invalid({"remove_tags": f"{', '.join(both)}: can't be both added and removed."})
    if not more and not less:
        return
    with audit.act("run.tag", run, **{name: tags for name, tags in (("add", more), ("remove", less)) if tags}):
        # Others who add tags to this run must wait, or the limit could be exceeded.
        if not Run.objects.select_for_update().filter(pk=run.pk).values_list("pk"):
            raise Conflict(GONE)
        run.tags.filter(name__in=less).delete()
        Tag.objects.bulk_create([Tag(run=run, name=name) for name in more], ignore_conflicts=True)
        if more and (number := run.tags.count()) > MOST_TAGS:
            raise Invalid({"add_tags": f"The run would have {number} tags; at most {MOST_TAGS} are allowed."})


def tag_names(given: Any, field: str = "tags") -> list[str]:
    """The tags in a text or list, lowercase and without duplicates. Raises `Invalid` for `field`."""
    words = re.split(r"[\s,]+", given) if isinstance(given, str) else given
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise Invalid({field: "Must be a list of words."})
    if len(words) > 2 * MOST_TAGS:
        raise Invalid({field: f"{len(words)} words: a run has at most {MOST_TAGS} tags."})
    names = [unicodedata.normalize("NFC", word.strip()).lower() for word in words]
    for name in filter(None, names):
        if len(name) > LONGEST or not NAME.fullmatch(name):
            shown = name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
            raise Invalid(
                {
                    field: f"{shown!r} is not a tag: use at most {LONGEST} letters, digits and . _ - + : @ /, "
                    "and begin with a letter or digit."
                }
            )
    return list(dict.fromkeys(filter(None, names)))


def _stop(run: Run) -> None:
    """Stop one of many runs. If it is watched in the same file as another of them, it was stopped with that."""
    going_on = run.can_stop
    try:
        stop(run)
    except Conflict:
        if not (going_on and run.origin == Run.Origin.WATCHED):
            raise


ACTIONS: dict[str, Callable[[Run], object]] = {
    "pin": pin,
    "unpin": unpin,
    "archive": archive,
    "unarchive": unarchive,
    "delete": delete,
    "restore": restore,
    "stop": _stop,
}
TAGGING = ("tag", "untag")
CHANGE = "tuning.change_run"
PERMISSIONS = {"stop": "tuning.stop_run", "delete": "tuning.delete_run", "restore": "tuning.delete_run"}
"""What actions need that not everybody may do who may change runs."""
NOT_YOURS = "Your role in its project doesn't allow this, or somebody else launched it."


class Action(msgspec.Struct):
    """The same change to many runs."""

    action: Annotated[str, Meta(extra_json_schema={"enum": [*TAGGING, *ACTIONS]})]
    runs: Annotated[list[int], Meta(min_length=1, max_length=MOST_RUNS)]
    tags: Annotated[list[str], Meta(description="For `tag` and `untag`.")] = []


def act(user: User | None, action: Any, runs: Any, tags: Any = "") -> OutcomeDict:
    """Do the same to many runs. A run that can't be changed, or not by this user, doesn't stop the others.

    `runs` are ids, as a list or as text; `tags` is for `tag` and `untag`. Raises `Invalid` before anything is changed.
    """
    change = _change(action, tags)
    keys = _keys(runs)
    seen = Run.everything.seen_by(user) if action == "restore" else Run.objects.seen_by(user)
    found = seen.select_related("project").in_bulk(keys)
    permission = PERMISSIONS.get(action, CHANGE)
    outcome: OutcomeDict = {"action": action, "done": [], "refused": {}}
    for key in keys:
        if key not in found:
            refusal: str | None = GONE
        elif user and not user.has_perm(permission, found[key]):
            refusal = NOT_YOURS
            audit.refuse(f"run.{'tag' if action in TAGGING else action}", found[key], NOT_YOURS)
        else:
            refusal = _refusal(change, found[key])
        if refusal is None:
            outcome["done"].append(key)
        else:
            outcome["refused"][key] = refusal
    return outcome


def _refusal(change: Callable[[Run], object], run: Run) -> str | None:
    """Make the change; the reason if that wasn't possible."""
    try:
        change(run)
    except Conflict as conflict:
        return str(conflict)
    except Invalid as invalid:
        return " ".join(invalid.fields.values())
    return None


def _change(action: Any, tags: Any) -> Callable[[Run], object]:
    if action in TAGGING:
        names = tag_names(tags)
        if not names:
            raise Invalid({"tags": "Write at least one tag."})
        return lambda run: change_tags(run, **{"add" if action == "tag" else "remove": names})
    if not isinstance(action, str) or action not in ACTIONS:
        raise Invalid({"action": f"Must be one of {', '.join((*TAGGING, *ACTIONS))}."})
    return ACTIONS[action]


def _keys(given: Any) -> list[int]:
    words = [word for word in re.split(r"[\s,]+", given) if word] if isinstance(given, str) else given
    if not isinstance(words, list) or not all(_is_key(word) for word in words):
        raise Invalid({"runs": "Must be run numbers."})
    if not 0 < len(words) <= MOST_RUNS:
        raise Invalid({"runs": f"Choose 1 to {MOST_RUNS} runs, not {len(words)}."})
    return list(dict.fromkeys(map(int, words)))


def _is_key(word: Any) -> bool:
    if isinstance(word, str):
        return re.fullmatch(r"[0-9]{1,18}", word) is not None
    return isinstance(word, int) and not isinstance(word, bool) and 0 <= word < 2**63
