"""The machines of the site, its queues, and the devices that runs measure on."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router, Status
from typing_extensions import TypedDict

from dashboard.accounts import MANAGE_MACHINES
from dashboard.http.access import person
from tuning.actions.machines import steering
from tuning.models import Machine
from tuning.reads import device_status
from tuning.reads.device_status import DevicesDict
from tuning.reads.machines.listing import MachineDict, machines
from tuning.reads.machines.queues import SiteQueueDict, queues

from .auth import needs
from .shapes import ERRORS

router = Router(tags=["machines"])


class MachineList(TypedDict):
    """The machines by name, and what waits on the site."""

    items: list[MachineDict]
    queues: list[SiteQueueDict]


@router.get("machines", response={200: MachineList, **ERRORS})
def list_machines(request: HttpRequest) -> MachineList:
    """All machines: what each is, does and did in the last hour, its load, and what waits for it; then the site's queues."""
    return {"items": machines(person(request))["machines"], "queues": queues()}


@router.get("machines/{name:name}", response={200: MachineDict, **ERRORS})
def get_machine(request: HttpRequest, name: str) -> MachineDict:
    """One machine."""
    return _shown(request, get_object_or_404(Machine, name=name))


@router.post("machines/{name:name}/drain", response={200: MachineDict, **ERRORS}, auth=needs(MANAGE_MACHINES))
def drain_machine(request: HttpRequest, name: str) -> MachineDict:
    """Let the machine finish the trial in hand and take no more. 409 if it is being drained."""
    return _shown(request, steering.drain(get_object_or_404(Machine, name=name)))


@router.post("machines/{name:name}/resume", response={200: MachineDict, **ERRORS}, auth=needs(MANAGE_MACHINES))
def resume_machine(request: HttpRequest, name: str) -> MachineDict:
    """Let a drained machine take work again. 409 if it isn't being drained."""
    return _shown(request, steering.resume(get_object_or_404(Machine, name=name)))


@router.post("machines/{name:name}/measure", response={200: MachineDict, **ERRORS}, auth=needs(MANAGE_MACHINES))
def measure_machine(request: HttpRequest, name: str) -> MachineDict:
    """Have the machine's rooflines measured again, each by the next run for its target. 409 if it has none, or if that is asked for already."""
    return _shown(request, steering.measure_again(get_object_or_404(Machine, name=name)))


@router.post("machines/{name:name}/forget", response={204: None, **ERRORS}, auth=needs(MANAGE_MACHINES))
def forget_machine(request: HttpRequest, name: str) -> Status[None]:  # noqa: ARG001
    """Remove a lost or drained machine from the site; its runs stay. 409 if it is at work, or if a run waits for it alone."""
    steering.forget(get_object_or_404(Machine, name=name))
    return Status(204, None)


@router.get("devices", response={200: DevicesDict, **ERRORS})
def list_devices(request: HttpRequest) -> DevicesDict:
    """Devices of this machine and of the allowed trackers, now and over the last hour; what uses them and what waits."""
    return device_status.devices(person(request))


def _shown(request: HttpRequest, machine: Machine) -> MachineDict:
    return next(one for one in machines(person(request))["machines"] if one["id"] == machine.pk)
