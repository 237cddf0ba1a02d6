"""Warnings about a launch that is valid but may not do what its user wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from typing_extensions import TypedDict

from tuning.models import Extraction, Network, Run
from tuning.validation import Invalid

from .launching import Launch


class CheckDict(TypedDict):
    """The errors and the warnings of a launch by field; `target` is the resolved target's label."""

    fields: dict[str, str]
    warnings: dict[str, str]
    target: str | None


def check(data: Mapping[str, Any], user: User | None) -> CheckDict:
    """Check a launch without making it; `data` as for `runs.launch`."""
    try:
        launch = Launch(data, user)
    except Invalid as invalid:
        return {"fields": invalid.fields, "warnings": {}, "target": None}
    return {"fields": {}, "warnings": warnings(launch), "target": launch.target["label"]}


def warnings(launch: Launch) -> dict[str, str]:
    """The warnings by field."""
    found = {"target": launch.target.get("warning") or "", **_about_templates(launch), **_about_tasks(launch)}
    if launch.target_is_guessed:
        found["target"] = (
            f"`this` is this machine's CPU ({launch.target['label']}), which {launch.device} may not have: "
            "enter that device's target."
        )
    return {field: text for field, text in found.items() if text}


def _about_templates(launch: Launch) -> dict[str, str]:
    """AutoTVM extracts only what it has a template for, and says nothing of the rest."""
    layout = str((launch.network_options or {}).get("layout", ""))
    if launch.engine.name != "autotvm" or launch.target["target"]["kind"] != "llvm" or not layout.endswith("C"):
        return {}
    return {
        "network_options.layout": "AutoTVM has no CPU templates for convolutions in this layout: choose a channels-first one."
    }


def _about_tasks(launch: Launch) -> dict[str, str]:
    """Only if the network's tasks are known from an earlier run or extraction with the same target."""
    total, source = _known_tasks(launch)
    if total is None:
        return {}
    chosen = launch.options.tasks or range(total)
    if beyond := [str(task) for task in chosen if task >= total]:
        return {"tasks": f"There is no task {', '.join(beyond)}: the network has {total}, from 0 ({source})."}
    if launch.budget.trials < len(set(chosen)):
        return {
            "trials": f"{launch.budget.trials:,} trials can't measure each of {len(set(chosen)):,} tasks ({source}): "
            "there will be no estimate."
        }
    return {}


def _known_tasks(launch: Launch) -> tuple[int | None, str]:
    """The number of tasks and where it is known from."""
    network = Network.objects.named(launch.network, launch.network_options, launch.project)
    target = launch.target["target"]
    known = Run.objects.filter(project=launch.project, network=network, engine=launch.engine.name, tasks_total__gt=0)
    for run in known.order_by("-pk")[:20]:
        if run.target == target:
            return run.tasks_total, f"as in run {run.pk}"
    if launch.engine.legacy:
        return None, ""
    done = Extraction.objects.filter(network=network, status=Extraction.Status.FINISHED).order_by("-pk")[:20]
    for extraction in done:
        if extraction.target == target:
            return extraction.tasks.count(), "as extracted"
    return None, ""
