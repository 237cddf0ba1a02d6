"""What the machine was like while a run measured on it."""

from __future__ import annotations

from django.db.models import F
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
    """The machine as a session of the run found it."""

    at_s: float
    machine: str
    processor: ProcessorDict


class ConditionSampleDict(TypedDict):
    """The seconds up to `at_s`, when `done` trials had ended. Null is what the machine doesn't tell.

    `others_cores` of its `cpus` were used by others' processes. Frequencies are in MHz, the temperature in °C.
    """

    at_s: float
    done: int
    others_cores: float | None
    cpus: int | None
    mhz: float | None
    least_mhz: float | None
    celsius: float | None


class ConditionsDict(TypedDict):
    """Empty if the run was tuned before this was recorded, or by somebody else, on remote devices or by a pool of machines."""

    sessions: list[ConditionSessionDict]
    samples: list[ConditionSampleDict]


def conditions(run: Run) -> ConditionsDict:
    """Sessions and samples, oldest first."""
    return {
        "sessions": [_session(one) for one in run.condition_sessions.all()],
        "samples": [_sample(one) for one in run.condition_samples.all()],
    }


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
        "at_s": one.at_s,
        "done": one.done,
        "others_cores": one.others_cores,
        "cpus": one.cpus,
        "mhz": one.mhz,
        "least_mhz": one.least_mhz,
        "celsius": one.celsius,
    }


def noisy(run: Run, most: int) -> list[tuple[int, float | None]]:
    """Numbers and times of the run's noisy trials; every n-th number where there are more than about `most`."""
    step = max(1, -(-run.trials_noisy // most))
    found = run.trials.filter(noisy=True).annotate(turn=F("number") % step).filter(turn=0).order_by("number")
    return list(found.values_list("number", "at_s"))
