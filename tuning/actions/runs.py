"""Launch, stop, resume and extend runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from django.contrib.auth.models import User
from django.db.models import F
from django.utils import timezone

from tuning import audit
from tuning.models import Run, Tag, Watch
from tuning.notify.announce import announce_status
from tuning.queue import jobs
from tuning.validation import Conflict, Invalid, convert

from .launching import MOST_TRIALS, Extension, Launch, variants_of
from .machines import placing
from .networks.chosen import stored

SYNTHETIC = "The run is synthetic: there is nothing to tune."
OTHERS = "The run was {origin}, not launched here: this site has its log and can't continue it. Launch a run of the network instead."


def launch(data: Mapping[str, Any], user: User | None, *, enqueue: bool = True) -> Run:
    """Store a queued run and, unless `enqueue` is false, notify the workers.

    `data` is flat, as in `POST /api/v1/runs`; values may be strings, as forms send them. Raises `Invalid` that
    names every field at fault; then nothing is stored.
    """
    run = _stored(Launch(data, user), user)
    if enqueue:
        jobs.enqueue(run)
    return run


def launch_variants(data: Mapping[str, Any], variants: Any, user: User | None) -> tuple[list[Run], str]:
    """Queue a run for each combination of the options' values in `variants`, or none; also their common tag.

    `data` as for `launch`. Raises `Invalid`.
    """
    checked = variants_of(data, variants, user)
    with audit.together():
        runs = [_stored(one, user) for one in checked]
        tag = f"variants-{runs[0].pk}"
        Tag.objects.bulk_create(Tag(run=run, name=tag) for run in runs)
    for run in runs:
        jobs.enqueue(run)
    return runs, tag


def _stored(checked: Launch, user: User | None) -> Run:
    """The queued run, with its entry in the audit log."""
    return store_queued(
        user,
        name=checked.name,
        engine=checked.engine.name,
        interpreter=checked.interpreter,
        project=checked.project,
        network=stored(checked.network, checked.network_options, checked.project),
        target=checked.target["target"],
        device=checked.device,
        chosen_machine=checked.machine,
        needs=checked.needs,
        machines_wanted=checked.machines,
        priority=checked.priority,
        options=msgspec.to_builtins(checked.options),
        trials_budget=checked.budget.trials,
        time_limit_s=checked.budget.time_limit_s,
        continues=checked.continues,
    )


def store_queued(user: User | None, **values: Any) -> Run:
    """A queued run with these columns, which were checked, and its entry in the audit log. No worker is told yet."""
    with audit.act("run.launch") as act:
        run = act.of = Run.objects.create(**values, created_by=user, queued_at=timezone.now())
        act.details = {
            "engine": run.engine,
            "project": run.project.name,
            "network": run.network_name,
            "device": run.device,
            "machine": run.chosen_machine.name if run.chosen_machine else placing.ANY,
            "priority": run.Priority(run.priority).name.lower(),
            **({"machines": run.machines_wanted or placing.ALL} if run.has_pool else {}),
            "trials": run.trials_budget,
            **({"continues": run.continues_id} if run.continues_id else {}),
        }
    return run


def stop(run: Run) -> Run:
    """Stop a queued run at once, a running one as soon as its engine reacts. Raises `Conflict`.

    A file isn't watched any more then, so all runs that it is are stopped.
    """
    with audit.act("run.stop", run):
        if not _stopped(run):
            run.refresh_from_db(fields=("status",))
            raise Conflict(f"The run is {run.status}: only a queued or running run can be stopped.")
        others = [other for other in _watched_with(run) if _stopped(other)]
    for each in (run, *others):
        announce_status(each)
    return run


def _stopped(run: Run) -> bool:
    queued, running = Run.Status.QUEUED, Run.Status.RUNNING
    return run.end(queued, to=Run.Status.STOPPED) or run.move(running, to=Run.Status.STOPPING)


def _watched_with(run: Run) -> list[Run]:
    """The other runs of the file, if that is what the run is watched in."""
    watch = Watch.objects.filter(run=run).first()
    found = Watch.objects.of_file(watch.path, watch.project).exclude(run=run) if watch else []
    return [each.run for each in found]


def resume(run: Run) -> Run:
    """Queue a run again that ended before its budget was spent. Raises `Conflict`."""
    with audit.act("run.resume", run):
        _check_ours(run)
        if run.trials_left == 0:
            raise Conflict(f"All of the run's {run.trials_budget:,} trials are done: there is nothing to resume.")
        if not run.requeue(*Run.RESUMABLE):
            run.refresh_from_db(fields=("status",))
            raise Conflict(f"The run is {run.status}: only a stopped, failed or interrupted run can be resumed.")
    announce_status(run)
    jobs.enqueue(run)
    return run


def extend(run: Run, data: Mapping[str, Any]) -> Run:
    """Give the run more `trials`, more `time_s`, or both; a run that ended is queued again.

    Raises `Invalid` or `Conflict`.
    """
    more = convert(Extension, data)
    with audit.act("run.extend", run, **_given(more)):
        _check_extension(run, more)
        queued = _extended(run, more)
    if queued:
        jobs.enqueue(run)
    announce_status(run)
    return run


def prioritize(run: Run, given: Any, user: User | None) -> Run:
    """Give a queued run another priority. Raises `Invalid` or `Conflict`."""
    priority = placing.priority(given, user, run.project, default=None)
    was = run.Priority(run.priority).name.lower()
    with audit.act("run.prioritize", run, priority={"from": was, "to": given}):
        if not Run.objects.filter(pk=run.pk, status=Run.Status.QUEUED).update(priority=priority):
            run.refresh_from_db(fields=("status",))
            raise Conflict(f"The run is {run.status}: only a queued run has a priority.")
    run.refresh_from_db(fields=("priority",))
    announce_status(run)
    return run


def _given(more: Extension) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(more).items() if value is not None}


def _extended(run: Run, more: Extension) -> bool:
    """Whether the run, which is extended, was queued again. Raises `Conflict`."""
    grown: dict[str, Any] = {"trials_budget": F("trials_budget") + (more.trials or 0)}
    if more.time_s is not None:
        grown["time_limit_s"] = F("time_limit_s") + more.time_s
    going_on = (Run.Status.QUEUED, Run.Status.RUNNING)
    if Run.objects.filter(pk=run.pk, status__in=going_on).update(**grown):
        run.refresh_from_db()
        return False
    if run.requeue(*Run.ENDED, **grown):
        return True
    run.refresh_from_db(fields=("status",))
    raise Conflict(f"The run is {run.status}: it can be extended once it has stopped.")


def _check_ours(run: Run) -> None:
    if run.synthetic:
        raise Conflict(SYNTHETIC)
    if run.origin != Run.Origin.LAUNCHED:
        raise Conflict(OTHERS.format(origin=run.origin))


def _check_extension(run: Run, more: Extension) -> None:
    _check_ours(run)
    if more.trials is None and more.time_s is None:
        raise Invalid({"trials": "Enter how many trials to add."})
    if more.time_s is not None and run.time_limit_s is None:
        raise Invalid({"time_s": "The run has no time limit."})
    budget = (run.trials_budget or 0) + (more.trials or 0)
    if budget > MOST_TRIALS:
        raise Invalid({"trials": f"The run would have {budget:,} trials, more than {MOST_TRIALS:,}."})
    if budget <= run.trials_done:
        raise Invalid({"trials": f"All of the run's {run.trials_done:,} trials are done: enter how many to add."})
    if run.time_limit_s is not None and run.time_limit_s + (more.time_s or 0) <= (run.elapsed_s or 0.0):
        raise Invalid(
            {"time_s": f"The run has been tuned for {run.elapsed_s:.0f} s already: the limit must be higher."}
        )
