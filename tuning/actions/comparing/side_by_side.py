"""Have the best records of several runs measured in turn, and cancel that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from django.contrib.auth.models import User
from django.utils import timezone
from msgspec import Meta

from tuning import audit
from tuning.models import Run, SideBySide
from tuning.queue import jobs
from tuning.reads.comparing import FEWEST, MOST, runs_of, side_by_side
from tuning.validation import Conflict, Invalid, unknown

Status = SideBySide.Status


class Beside(msgspec.Struct):
    """The runs to measure side by side."""

    runs: Annotated[
        list[int],
        Meta(min_length=FEWEST, max_length=MOST, description="Ids of runs of one network, target and kind of device."),
    ]


def runs_in(data: Mapping[str, Any], user: User | None) -> list[Run]:
    """The runs that a `Beside` names, among those that the user sees. Raises `Invalid`."""
    if wrong := unknown(data, Beside.__struct_fields__):
        raise Invalid(wrong)
    keys = data.get("runs")
    if not isinstance(keys, list) or not all(isinstance(key, int) and not isinstance(key, bool) for key in keys):
        raise Invalid({"runs": f"Must be a list of {FEWEST} to {MOST} run numbers."})
    return runs_of(user, ",".join(map(str, keys)))


def measure(runs: Sequence[Run], user: User | None) -> SideBySide:
    """Queue the measurement of these runs, which are from `runs_of`. Raises `Conflict`."""
    keys = [run.pk for run in runs]
    with audit.act("side_by_side.start", audit.Thing("side_by_side"), runs=keys) as act:
        if trouble := side_by_side.trouble(runs):
            raise Conflict(trouble)
        _lock(keys)
        if SideBySide.objects.of(keys).unfinished().exists():
            raise Conflict("These runs are being measured side by side already.")
        made = SideBySide.objects.create(
            key=SideBySide.key_of(keys),
            device=runs[0].measures_on,
            created_by=user,
            queued_at=timezone.now(),
        )
        made.runs.set(runs)
        act.of = _thing(made)
    jobs.enqueue(made)
    return made


def cancel(row: SideBySide) -> SideBySide:
    """End a queued one at once, and a running one as soon as its job notices. Raises `Conflict`."""
    with audit.act("side_by_side.cancel", _thing(row)):
        if not (row.end(Status.QUEUED, to=Status.CANCELLED) or row.move(Status.RUNNING, to=Status.CANCELLING)):
            row.refresh_from_db(fields=("status",))
            raise Conflict(f"The measurement is {row.status}: only a queued or running one can be cancelled.")
    return row


def _lock(runs: Sequence[int]) -> None:
    """Until the transaction ends, nobody else queues a measurement of these runs. In order, so that two don't wait for each other."""
    list(Run.objects.select_for_update().filter(pk__in=runs).order_by("pk").values_list("pk"))


def _thing(row: SideBySide) -> audit.Thing:
    return audit.Thing("side_by_side", row.pk, str(row))
