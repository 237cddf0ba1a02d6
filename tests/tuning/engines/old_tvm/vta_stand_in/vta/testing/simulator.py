"""The stand-in's simulator: a device `ext_dev` that is this machine's CPU.

If VTA_STAND_IN_FAULT is `crash` or `hang`, so does every second process that measures on it.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import tvm

LOADED_IN = os.getpid()
FAULT = os.environ.get("VTA_STAND_IN_FAULT")


def device() -> Any:
    """TVM asks each process for its device once."""
    if os.getpid() != LOADED_IN and os.getpid() % 2:
        if FAULT == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if FAULT == "hang":
            time.sleep(3600)
    return tvm.get_global_func("device_api.cpu")()


if FAULT != "no_simulator":
    tvm.register_func("device_api.ext_dev", device, override=True)


def enabled() -> bool:
    return tvm.get_global_func("device_api.ext_dev", allow_missing=True) is not None
