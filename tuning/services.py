"""What users can have done: launch, stop and resume runs, and read what these gave."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from . import compilations, jobs, webhooks
from .advice import CheckDict, check
from .announce import announce_status
from .console import ConsoleDict, console
from .devices import HERE
from .engines.protocol import Options
from .farm import SAMPLED_EVERY, DevicesDict, TrackerDict, devices, sample
from .farm import choices as remote_choices
from .models import Delivery, Extraction, Run
from .networks import UPLOADED, NetworkDict, builtin_networks, networks, stored, tidy
from .networks import delete as delete_network
from .networks import extraction as _extraction
from .networks import upload as upload_network
from .orders import MOST_TRIALS, Budget, Extension, Order, network_choice
from .purging import purge
from .targets import tags as target_tags
from .validation import Conflict, Invalid, OptionDict, convert, options_of, unknown

__all__ = (
    "SAMPLED_EVERY",
    "UPLOADED",
    "CheckDict",
    "Conflict",
    "ConsoleDict",
    "DevicesDict",
    "Invalid",
    "NetworkDict",
    "TrackerDict",
    "builtin_networks",
    "check",
    "console",
    "delete_network",
    "devices",
    "extend",
    "extract_tasks",
    "launch",
    "networks",
    "remote_choices",
    "resume",
    "sample",
    "send_again",
    "stop",
    "sweep",
    "target_tags",
    "try_webhooks",
    "tuning_options",
    "upload_network",
)
logger = logging.getLogger(__name__)


def tuning_options() -> list[OptionDict]:
    """How a run can be tuned, besides what and how much."""
    return options_of(Options)


def budget_options() -> list[OptionDict]:
    """How much a run tunes: the number of trials, and for how long at most."""
    return options_of(Budget)


def extension_options() -> list[OptionDict]:
    """How much more a run can be given."""
    return options_of(Extension)


def device_choices() -> list[str]:
    """Where a run can measure, as far as is known."""
    return [HERE, *remote_choices()]


def launch(data: Mapping[str, Any], user: User | None, *, enqueue: bool = True) -> Run:
    """Store a queued run and, unless `enqueue` is off, tell the workers.

    `data` is flat, as in `POST /api/v1/runs`; values may be strings, as forms send them. Raises `Invalid` that
    names every field at fault; then nothing is stored.
    """
    order = Order(data)
    with transaction.atomic():
        run = Run.objects.create(
            name=order.name,
            network=stored(order.network, order.network_options),
            target=order.target["target"],
            device=order.device,
            options=msgspec.to_builtins(order.options),
            trials_budget=order.budget.trials,
            time_limit_s=order.budget.time_limit_s,
            created_by=user,
            queued_at=timezone.now(),
        )
    if enqueue:
        jobs.enqueue(run)
    return run


def extract_tasks(data: Mapping[str, Any], user: User | None) -> Extraction:
    """Have the tasks of a network extracted for a target, unless they are already; a failed extraction is tried again.

    `data` has `network`, `network_options` and `target`, as in `launch`. Raises `Invalid` that names the fields at fault.
    """
    if strange := unknown(data, ("network", "network_options", "target")):
        raise Invalid(strange)
    name, options = network_choice(data)
    made, due = _extraction(stored(name, options), data.get("target"), user)
    if due:
        jobs.enqueue_extraction(made)
    return made


def stop(run: Run) -> Run:
    """A queued run ends at once, a running one as soon as its engine heard of it. Raises `Conflict`."""
    queued, running = Run.Status.QUEUED, Run.Status.RUNNING
    if not (
        webhooks.end(run, queued, to=Run.Status.STOPPED, finished_at=timezone.now())
        or run.move(running, to=Run.Status.STOPPING)
    ):
        run.refresh_from_db(fields=("status",))
        raise Conflict(f"The run is {run.status}: only a queued or running one can be stopped.")
    announce_status(run)
    return run


def resume(run: Run) -> Run:
    """Queue a run again that ended before its budget was spent: it goes on with what is left. Raises `Conflict`."""
    if run.synthetic:
        raise Conflict("The run is synthetic: there is nothing to tune.")
    if run.trials_done >= run.trials_budget:
        raise Conflict(f"All of the run's {run.trials_budget} trials are done: there is nothing to resume.")
    if not run.requeue(*Run.RESUMABLE):
        run.refresh_from_db(fields=("status",))
        raise Conflict(f"The run is {run.status}: only a stopped, failed or interrupted one can be resumed.")
    announce_status(run)
    jobs.enqueue(run)
    return run


def extend(run: Run, data: Mapping[str, Any]) -> Run:
    """Give the run more `trials`, more `time_s`, or both: a live or queued one goes on, one that ended is queued again.

    Raises `Invalid` or `Conflict`.
    """
    more = convert(Extension, data)
    _check_extension(run, more)
    grown: dict[str, Any] = {"trials_budget": F("trials_budget") + (more.trials or 0)}
    if more.time_s is not None:
        grown["time_limit_s"] = F("time_limit_s") + more.time_s
    waiting = (Run.Status.QUEUED, Run.Status.RUNNING)
    if Run.objects.filter(pk=run.pk, status__in=waiting).update(**grown):
        run.refresh_from_db()
    elif run.requeue(*Run.ENDED, **grown):
        jobs.enqueue(run)
    else:
        run.refresh_from_db(fields=("status",))
        raise Conflict(f"The run is {run.status}: it can be extended when it has stopped.")
    announce_status(run)
    return run


def _check_extension(run: Run, more: Extension) -> None:
    if run.synthetic:
        raise Conflict("The run is synthetic: there is nothing to tune.")
    if more.trials is None and more.time_s is None:
        raise Invalid({"trials": "Say how many trials more."})
    if more.time_s is not None and run.time_limit_s is None:
        raise Invalid({"time_s": "The run has no time limit."})
    budget = run.trials_budget + (more.trials or 0)
    if budget > MOST_TRIALS:
        raise Invalid({"trials": f"The run would have {budget:,} trials, more than {MOST_TRIALS:,}."})
    if budget <= run.trials_done:
        raise Invalid({"trials": f"All of the run's {run.trials_done} trials are done: say how many more."})
    if run.time_limit_s is not None and run.time_limit_s + (more.time_s or 0) <= run.elapsed_s:
        raise Invalid({"time_s": f"The run was tuned for {run.elapsed_s:.0f} s already: give it that and more."})


def sweep() -> int:
    """Mark runs whose supervisor is gone, tell the workers again of runs that the broker lost, remove what was deleted.

    Gives the number of runs that it marked.
    """
    marked = [run for run in Run.objects.abandoned() if _interrupt(run)]
    for run in marked:
        logger.warning("Run %s was interrupted: its worker stopped renewing the lease.", run.pk)
        announce_status(run)
    for run in Run.objects.forgotten():
        jobs.enqueue(run)
    _sweep_extractions()
    purge()
    compilations.sweep()
    for delivery in webhooks.sweep():
        jobs.enqueue_delivery(delivery)
    tidy()
    return len(marked)


def _sweep_extractions() -> None:
    gone = {
        "error": "The worker stopped responding. Extract the tasks again.",
        "finished_at": timezone.now(),
        "step": "",
    }
    for extraction in Extraction.objects.abandoned():
        extraction.move(
            Extraction.Status.RUNNING, to=Extraction.Status.FAILED, mine={"lease": extraction.lease}, **gone
        )
    for extraction in Extraction.objects.forgotten():
        jobs.enqueue_extraction(extraction)


def _interrupt(run: Run) -> bool:
    """Only if the lease is the one that ran out: a supervisor may have renewed or ended it meanwhile."""
    return webhooks.end(
        run,
        *Run.LIVE,
        to=Run.Status.INTERRUPTED,
        mine={"lease": run.lease, "heartbeat_at": run.heartbeat_at},
        finished_at=run.heartbeat_at,
        phase=None,
        phase_task=None,
        error="The worker stopped responding. Resume goes on where the run ended.",
    )


def try_webhooks(user: User) -> None:
    """Send a test to each address of the settings. Raises `Conflict` when there is none."""
    deliveries = webhooks.note_test(user.get_username())
    if not deliveries:
        raise Conflict("There is no address: name some in TUNEBOARD_WEBHOOKS.")
    for delivery in deliveries:
        jobs.enqueue_delivery(delivery)


def send_again(delivery: Delivery) -> None:
    """Send what was given up once more. Raises `Conflict`."""
    if not delivery.again():
        raise Conflict("It is being sent already.")
    jobs.enqueue_delivery(delivery)
