"""What the machines were like while they measured a run."""

from __future__ import annotations

from django.db.models import Avg, F
from typing_extensions import TypedDict

from tuning.models import ConditionSample, ConditionSession, Run


class ProcessorDict(TypedDict):
    """How a machine's processors are set; null is what it doesn't tell. `cpus` counts those that the kernel schedules on."""

    model: str | None
    cpus: int | None
    governor: str | None
    turbo: bool | None
    smt: bool | None
    kernel: str | None


class ConditionSessionDict(TypedDict):
    """The machine as a session of the run found it; in a pool, each machine once it took part."""

    at_s: float
    machine: str
    processor: ProcessorDict


class ConditionSampleDict(TypedDict):
    """The seconds up to `at_s`, when `done` trials had ended. Null is what the machine doesn't tell.

    `machine` is the one of the run's pool that tells it, null without a pool: then it is the session's. `others_cores` of its `cpus` were used
    by others' processes. Frequencies are in MHz, the temperature in °C.
    """

    machine: str | None
    at_s: float
    done: int
    others_cores: float | None
    cpus: int | None
    mhz: float | None
    least_mhz: float | None
    celsius: float | None


class ConditionsDict(TypedDict):
    """Empty if the run was tuned before this was recorded, by somebody else, or on remote devices."""

    sessions: list[ConditionSessionDict]
    samples: list[ConditionSampleDict]


def conditions(run: Run, machine: str | None = None) -> ConditionsDict:
    """Sessions and samples, oldest first, in a pool by machine; or the samples of one `machine` of its pool only."""
    samples = run.condition_samples.order_by("machine", "pk")
    if machine is not None:
        samples = samples.filter(machine=machine)
    return {
        "sessions": [_session(one) for one in run.condition_sessions.all()],
        "samples": [_sample(one) for one in samples],
    }


def machines(run: Run) -> list[str]:
    """Names of the machines of its pool that have samples, those first that others used most; none without a pool."""
    named = run.condition_samples.exclude(machine="").order_by().values("machine")
    loaded = named.annotate(load=Avg("others_cores")).order_by(F("load").desc(nulls_last=True), "machine")
    return [one["machine"] for one in loaded]


def _session(one: ConditionSession) -> ConditionSessionDict:
    told = one.processor
    return {
        "at_s": one.at_s,
        "machine": one.machine,
        "processor": {
            "model": told.get("model"),
            "cpus": told.get("cpus"),
            "governor": told.get("governor"),
            "turbo": told.get("turbo"),
            "smt": told.get("smt"),
            "kernel": told.get("kernel"),
        },
    }


def _sample(one: ConditionSample) -> ConditionSampleDict:
    return {
        "machine": one.machine or None,
        "at_s": one.at_s,
        "done": one.done,
        "others_cores": one.others_cores,
        "cpus": one.cpus,
        "mhz": one.mhz,
        "least_mhz": one.least_mhz,
        "celsius": one.celsius,
    }


def noisy(run: Run, most: int, machine: str | None = None) -> list[tuple[int, float | None]]:
    """Numbers and times of the run's noisy trials; every n-th number where there are more than about `most`. `machine`: of those only that it measured."""
    step = max(1, -(-run.trials_noisy // most))
    found = run.trials.filter(noisy=True).annotate(turn=F("number") % step).filter(turn=0).order_by("number")
    if machine is not None:
        found = found.filter(machine__name=machine)
    return list(found.values_list("number", "at_s"))
