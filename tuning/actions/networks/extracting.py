"""Extract the tasks of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from typing_extensions import TypedDict

from tuning import audit
from tuning.actions.launching import NetworkChoice, network_choice
from tuning.host import targets
from tuning.models import Extraction, Network, fingerprint
from tuning.queue import jobs
from tuning.validation import Invalid, gather, unknown
from tuning.wording import target_label

from .chosen import stored

NOTHING_KNOWN = "Only its name is known, so it has no tasks to extract."


def extract_tasks(data: Mapping[str, Any], user: User | None) -> Extraction:
    """Queue the extraction of a network's tasks for a target, unless it is done; a failed one is tried again.

    `data` is a `NetworkChoice`. Raises `Invalid` that names the fields at fault.
    """
    if wrong := unknown(data, NetworkChoice.__struct_fields__):
        raise Invalid(wrong)
    return extract_tasks_of(stored(*network_choice(data, user)), data.get("target"), user)


def extract_tasks_of(network: Network, target: Any, user: User | None) -> Extraction:
    """The same of a network that is known. Raises `Invalid` for `target`."""
    if not network.can_tune:
        raise Invalid({"network": NOTHING_KNOWN})
    made, due = requested(network, target, user)
    if due:
        jobs.enqueue(made)
    return made


def requested(network: Network, target: Any, user: User | None) -> tuple[Extraction, bool]:
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


def _resolved(asked: str | dict[str, Any]) -> dict[str, Any]:
    """The target resolved for this machine, or else for a remote device: an extraction runs nothing on it."""
    try:
        return targets.resolve(asked)["target"]
    except Invalid:
        return targets.resolve_elsewhere(asked)["target"]
