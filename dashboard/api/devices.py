"""Where runs measure."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from tuning.reads import device_status
from tuning.reads.device_status import DevicesDict

from .shapes import ERRORS

router = Router(tags=["devices"])


@router.get("devices", response={200: DevicesDict, **ERRORS})
def list_devices(request: HttpRequest) -> DevicesDict:  # noqa: ARG001
    """This machine's devices and those of the allowed trackers, now and over the last hour, and what uses them or waits."""
    return device_status.devices()
