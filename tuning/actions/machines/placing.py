"""Where a launch may go: which machine, for which target, and in what order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User

from tuning.host import targets
from tuning.host.machine import identity
from tuning.host.targets import TargetDict
from tuning.models import Machine, Needs, Project, Run, all_described
from tuning.models.fleet import is_shared
from tuning.validation import Invalid
from tuning.wording import target_label

ANY = "any"
ALL = "all"
MOST_MACHINES = 1000
PRIORITIES = {priority.name.lower(): priority for priority in Run.Priority}
MANAGE = "tuning.change_project"
"""Who has this permission in a project may put its runs before others'."""


class Placed(NamedTuple):
    """A target, and what a machine must have to run its code; None if there is only this machine."""

    target: TargetDict
    needs: Needs | None


def chosen(name: Any) -> Machine | None:
    """The machine that a launch names; None for any that fits. Raises `Invalid`."""
    if name in (None, "", ANY):
        return None
    found = Machine.objects.filter(name=name).first() if isinstance(name, str) else None
    if found is None:
        there_are = ", ".join(Machine.objects.values_list("name", flat=True)) or "none yet"
        raise Invalid({"machine": f"There is no machine {str(name)[:63]!r}. Write {ANY!r}, or one of: {there_are}."})
    return found


def priority(given: Any, user: User | None, project: Project | None, default: str | None = "normal") -> int:
    """Of a launch or a queued run. Raises `Invalid` if the user may not give it; None as user is the site itself."""
    name = default if given in (None, "") else given
    if not isinstance(name, str) or name not in PRIORITIES:
        raise Invalid({"priority": f"Must be one of: {', '.join(PRIORITIES)}."})
    if PRIORITIES[name] > Run.Priority.NORMAL and not (user is None or user.has_perm(MANAGE, project)):
        raise Invalid({"priority": "Only the project's admins may put a run before all others: choose normal or low."})
    return PRIORITIES[name]


def several(given: Any, device: str, machine: Machine | None, needs: Needs | None, *, older: bool) -> int:
    """On how many machines a run is measured; 0 for all equal ones. Raises `Invalid` if there can't be as many."""
    wanted = {ALL: 0, "": 1, None: 1}[given] if given in (ALL, "", None) else _number(given)
    if wanted == 1:
        return 1
    if is_shared(device):
        raise Invalid({"machines": "A remote device is measured on by one machine."})
    if older:
        raise Invalid({"machines": "Engines of older TVMs tune on one machine."})
    group = _equal_ones(device, machine, needs)
    if len(group) < max(2, wanted):
        able = f"{len(group)} {'machine' if len(group) == 1 else 'machines'}"
        like = "CPU, cores and versions like " + str(machine) if machine else "the same CPU, cores and versions"
        raise Invalid(
            {
                "machines": f"Only {able} with {like} can run it, not {max(2, wanted)}. Machines: "
                f"{all_described(Machine.objects.all())}."
            }
        )
    return wanted


def _number(given: Any) -> int:
    number = int(given) if isinstance(given, str) and given.isdecimal() else given
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_MACHINES:
        raise Invalid({"machines": f"Must be a number from 1 to {MOST_MACHINES}, or {ALL!r} for all equal ones."})
    return number


def _equal_ones(device: str, machine: Machine | None, needs: Needs | None) -> list[Machine]:
    """The most machines that are equal and can run it, the chosen one among them."""
    able = [
        one
        for one in Machine.objects.all()
        if device in one.devices and one.cpu and (needs is None or needs.met_by(one))
    ]
    first = [machine] if machine else able
    return max(([one for one in able if one.is_like(each)] for each in first), key=len, default=[])


def is_fleet(machine: Machine | None) -> bool:
    """Whether there is anything to choose: a machine besides this one."""
    others = Machine.objects.exclude(key=identity.key())
    return others.exists() or (machine is not None and machine.key != identity.key())


def place(asked: str | dict[str, Any], machine: Machine | None) -> Placed:
    """The target of a run that is measured on the chosen machine, or any that fits. Raises `Invalid`."""
    if not is_fleet(machine):
        return _here(asked)
    machines = [machine] if machine else list(Machine.objects.all())
    resolved = targets.resolve_elsewhere(_in_full(asked, machines))
    needs = _needs(resolved)
    if not any(_fits(one, resolved, needs) for one in machines):
        raise Invalid({"machine" if machine else "target": _no_machine(resolved, needs, machines)})
    return Placed(resolved, needs)


def _here(asked: str | dict[str, Any]) -> Placed:
    """On the only machine."""
    resolved = targets.resolve(asked)
    check_served(resolved)
    # It may be for more cores than there are: the user was warned.
    return Placed(resolved, _needs(resolved, at_most=Machine.objects.filter(key=identity.key()).first()))


def check_served(resolved: TargetDict) -> None:
    """Raises `Invalid` if no worker of this machine serves the target's device."""
    if resolved["device"] not in settings.DEVICES:
        served = ", ".join(settings.DEVICES)
        raise Invalid(
            {"target": f"It runs on {resolved['device']}, and no worker serves that device. Served: {served}."}
        )


def only_here(machine: Machine | None) -> Machine | None:
    """This machine for what no other can do; None where there is no choice. Raises `Invalid` if another was chosen."""
    here = Machine.objects.filter(key=identity.key()).first()
    if machine is not None and machine != here:
        raise Invalid({"machine": f"Engines of older TVMs run where the site is{f': on {here}' if here else ''}."})
    return here if is_fleet(machine) else None


def check_reaches_trackers(machine: Machine | None) -> None:
    """Raises `Invalid` if another machine was chosen: only of this one it is known which trackers it allows."""
    if machine is not None and machine.key != identity.key():
        raise Invalid(
            {
                "machine": f"A tracker's devices are measured on by any machine that allows the tracker, and whether {machine} does "
                f"isn't known here. Write {ANY!r}."
            }
        )


def _needs(resolved: TargetDict, at_most: Machine | None = None) -> Needs | None:
    features = resolved.get("needs")
    if features is None:
        return None
    cores = int(resolved["target"].get("num-cores", 0)) if resolved["device"] == "cpu" else 0
    return Needs.objects.of(features, min(cores, at_most.cores) if at_most and at_most.cores else cores)


def _in_full(asked: str | dict[str, Any], machines: Sequence[Machine]) -> str | dict[str, Any]:
    """The target with what depends on the machine: `this`, or the number of cores. Raises `Invalid` if that isn't the same on all."""
    if asked == "this":
        return _this(machines)
    checked = targets.checked(asked)
    if isinstance(checked, dict) and checked.get("kind") == "llvm" and "num-cores" not in checked:
        cores = {one.cores for one in machines if one.cores}
        if len(cores) != 1:
            raise Invalid(
                {
                    "target": f'Say for how many cores ("num-cores"), or choose a machine: there are {all_described(machines)}.'
                }
            )
        return checked | {"num-cores": cores.pop()}
    return checked


def _this(machines: Sequence[Machine]) -> dict[str, Any]:
    """The target that `this` is on every one of them. Raises `Invalid`."""
    known = {json.dumps(one.target, sort_keys=True): one.target for one in machines if one.target}
    if len(known) > 1:
        raise Invalid(
            {
                "machine": f"`this` differs between the machines: {all_described(machines)}. Choose one, or give a target."
            }
        )
    found = next(iter(known.values()), None)
    if found is None:
        raise Invalid(
            {"target": f"It isn't known yet what `this` is there: {all_described(machines)}. Try again in a moment."}
        )
    return dict(found)


def _fits(machine: Machine, resolved: TargetDict, needs: Needs | None) -> bool:
    return resolved["device"] in machine.devices and (needs is None or needs.met_by(machine))


def _no_machine(resolved: TargetDict, needs: Needs | None, machines: Sequence[Machine]) -> str:
    label = target_label(resolved["target"])
    groups: dict[str, list[Machine]] = {}
    for one in machines:
        groups.setdefault(_lacking(one, resolved, needs), []).append(one)
    told = (
        f"{all_described(ones)} {'lacks' if len(ones) == 1 else 'lack'} {lacking}" for lacking, ones in groups.items()
    )
    return f"No machine that joined can run {label}: {'; '.join(told)}."


def _lacking(machine: Machine, resolved: TargetDict, needs: Needs | None) -> str:
    if resolved["device"] not in machine.devices:
        return f"the device {resolved['device']}"
    assert needs is not None
    missing = [name for name in needs.features if name not in machine.features]
    few = [f"{needs.cores} cores"] if machine.cores < needs.cores else []
    more = ["…"] if len(missing) > SHOWN else []
    return ", ".join([*missing[:SHOWN], *more, *few])


SHOWN = 4
"""Instructions that a message names."""
