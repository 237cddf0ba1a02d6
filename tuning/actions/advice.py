"""What a launch would do: warnings if that may not be what its user wants, and its first pass."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from typing_extensions import TypedDict

from tuning.engines.wire.engines import Engine, EngineOptions
from tuning.engines.wire.options.meta_schedule import FIRST_SHARE, FIRST_TRIALS, Options
from tuning.host.machine import identity
from tuning.models import Extraction, Machine, Network, Project, Run
from tuning.validation import Invalid

from . import projects
from .launching import Launch, engine_of, network_of, settings_of


class CheckDict(TypedDict):
    """The errors and the warnings of a launch by field; `target` is the resolved target's label.

    `first_pass` says how many trials are spent before the task scheduler divides the rest; empty for engines that don't divide them so.
    """

    fields: dict[str, str]
    warnings: dict[str, str]
    target: str | None
    first_pass: str


class KnownTasks(NamedTuple):
    """How many tasks the network has, and where that is known from; None if it isn't.

    `rivals` is how many of them can be computed by another algorithm, too; None if only the engine can tell.
    """

    total: int | None
    source: str = ""
    rivals: int | None = None


def check(data: Mapping[str, Any], user: User | None) -> CheckDict:
    """Check a launch without making it; `data` as for `runs.launch`."""
    try:
        launch = Launch(data, user)
    except Invalid as invalid:
        return {"fields": invalid.fields, "warnings": {}, "target": None, "first_pass": ""}
    tasks = _known_tasks(launch)
    return {
        "fields": {},
        "warnings": _warnings(launch, tasks),
        "target": launch.target["label"],
        "first_pass": _first_pass(launch.options, launch.budget.trials, tasks),
    }


def foretold(data: Mapping[str, Any], user: User | None) -> str:
    """The first pass of a launch, as far as it is known without asking TVM: before a form's target is resolved.

    Empty if something about the launch is wrong.
    """
    try:
        project, engine = projects.chosen(data.get("project"), user, projects.LAUNCH), engine_of(data.get("engine"))
        network = Network.objects.named(*network_of(data, project, engine), project)
        budget, options = settings_of(data, engine)
    except Invalid:
        return ""
    return _first_pass(options, budget.trials, _tasks_of(network, engine, project, _unresolved(data.get("target"))))


def _unresolved(given: Any) -> Any:
    """The target as engines resolve it, as far as that is known: this machine's was resolved when it started."""
    if given in (None, "this"):
        here = Machine.objects.filter(key=identity.key()).first()
        return here.target if here else None
    try:
        return json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return None


def _warnings(launch: Launch, tasks: KnownTasks) -> dict[str, str]:
    found = {"target": launch.target.get("warning") or "", **_about_templates(launch), **_about_tasks(launch, tasks)}
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


def _first_pass(options: EngineOptions, trials: int, known: KnownTasks) -> str:
    if not isinstance(options, Options):
        return ""
    number = len(set(options.tasks)) if options.tasks else known.total
    if number is None:
        each = f"{options.first_trials:,}" if options.first_trials else f"{FIRST_TRIALS} or fewer"
        share = "" if options.first_trials else f", at most {FIRST_SHARE * 100:.0f} % of the budget together"
        return (
            f"Each task gets {each} trials before scheduling begins{share}. How many tasks there are isn't known yet."
        )
    known_rivals = known.rivals if options.rewrites.algorithms else 0
    if known_rivals and options.tasks:  # Of which tasks they are isn't known.
        known_rivals = None
    if (number == 1 and not known_rivals) or trials < number:
        return ""
    rivals = min(known_rivals or 0, options.affordable_rivals(trials, number))
    size = options.first_pass(trials, number + rivals)
    warm = " A task with a warm start needs only 1." if options.warm_start and size > 1 else ""
    if known_rivals is None:
        return (
            f"Each of {number:,} tasks gets {size:,} trials before scheduling begins; a convolution that two algorithms can compute "
            f"gets {max(size, FIRST_TRIALS):,} with each.{warm}"
        )
    if rivals:
        all_trials = options.first_trials_of(trials, number, rivals)
        return f"{number:,} tasks, {rivals:,} of them by two algorithms: {all_trials:,} trials before scheduling begins.{warm}"
    return f"{number:,} tasks × {size:,} = {number * size:,} trials before scheduling begins.{warm}"


def _about_tasks(launch: Launch, known: KnownTasks) -> dict[str, str]:
    """Only if the network's tasks are known from an earlier run or extraction with the same target."""
    total, source = known.total, known.source
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


def _known_tasks(launch: Launch) -> KnownTasks:
    return _tasks_of(launch.known_network(), launch.engine, launch.project, launch.target["target"])


def _tasks_of(network: Network | None, engine: Engine, project: Project, target: Any) -> KnownTasks:
    if network is None or target is None:
        return KnownTasks(None)
    known = Run.objects.filter(project=project, network=network, engine=engine.name, tasks_total__gt=0)
    for run in known.order_by("-pk")[:20]:
        if run.target == target:
            tried = engine.options_of(run.options)
            has_tried = isinstance(tried, Options) and tried.rewrites.algorithms
            rivals = run.tasks_spare if has_tried else _rivals(run.tasks)
            return KnownTasks(run.tasks_total, f"as in run {run.pk}", rivals)
    if engine.legacy:
        return KnownTasks(None)
    done = Extraction.objects.filter(network=network, status=Extraction.Status.FINISHED).order_by("-pk")[:20]
    for extraction in done:
        if extraction.target == target:
            return KnownTasks(extraction.tasks.count(), "as extracted", _rivals(extraction.tasks))
    return KnownTasks(None)


def _rivals(tasks: Any) -> int | None:
    """Without a convolution there are none."""
    return None if tasks.filter(name__contains="conv2d").exists() else 0
