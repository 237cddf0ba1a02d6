"""The devices that runs measure on."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from dashboard.http.access import person
from tuning.reads import device_status
from tuning.reads.device_status import DevicesDict

from .shapes import ERRORS

router = Router(tags=["devices"])


@router.get("devices", response={200: DevicesDict, **ERRORS})
def list_devices(request: HttpRequest) -> DevicesDict:
    """Devices of this machine and of the allowed trackers, now and over the last hour; what uses them and what waits."""
    return device_status.devices(person(request))
