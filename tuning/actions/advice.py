"""What a launch should be warned of, before it is made: it may go on all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from tuning.models import Extraction, Network, Run
from tuning.validation import Invalid

from .orders import Order


class CheckDict(TypedDict):
    """What a launch as given would be refused for, and what it is warned of; field to words. `target` is a label."""

    fields: dict[str, str]
    warnings: dict[str, str]
    target: str | None


def check(data: Mapping[str, Any]) -> CheckDict:
    """Judge a launch without making it; `data` as in `services.launch`."""
    try:
        order = Order(data)
    except Invalid as invalid:
        return {"fields": invalid.fields, "warnings": {}, "target": None}
    return {"fields": {}, "warnings": warnings(order), "target": order.target["label"]}


def warnings(order: Order) -> dict[str, str]:
    """Of a launch that may be made."""
    found = {"target": order.target.get("warning") or "", **_of_tasks(order)}
    if order.guessed:
        found["target"] = (
            f"`this` is this machine's CPU ({order.target['label']}), which {order.device} may not have: name the device's."
        )
    return {field: words for field, words in found.items() if words}


def _of_tasks(order: Order) -> dict[str, str]:
    """Only what is known of the network's tasks, from a run or an extraction of the very same network."""
    total, source = _tasks_of(order)
    if total is None:
        return {}
    chosen = order.options.tasks or range(total)
    if beyond := [str(task) for task in chosen if task >= total]:
        return {"tasks": f"There is no task {', '.join(beyond)}: the network has {total}, from 0 ({source})."}
    if order.budget.trials < len(set(chosen)):
        return {
            "trials": f"{order.budget.trials} trials can't measure each of {len(set(chosen))} tasks ({source}): "
            "there will be no estimate."
        }
    return {}


def _tasks_of(order: Order) -> tuple[int | None, str]:
    network = Network.objects.named(order.network, order.network_options)
    target = order.target["target"]
    for run in Run.objects.filter(network=network, tasks_total__gt=0).order_by("-pk")[:20]:
        if run.target == target:
            return run.tasks_total, f"as in run {run.pk}"
    done = Extraction.objects.filter(network=network, status=Extraction.Status.FINISHED).order_by("-pk")[:20]
    for extraction in done:
        if extraction.target == target:
            return extraction.tasks.count(), "as extracted"
    return None, ""
