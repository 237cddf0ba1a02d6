"""RPC sessions with remote devices."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuning.engines.wire import tracker
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import Remote
from tuning.engines.wire.tracker import Server, Tracker, TrackerError

from . import workers
from .arguments import RANDOM_FILL, allocated
from .outcomes import Timing, WorkerError

POLL_S = 1.0


@dataclass(frozen=True)
class Unreachable:
    """The tracker assigned a device that this machine can't connect to."""

    text: str


@dataclass(frozen=True)
class Broken:
    """The session ended in the middle: the candidate crashed it, or the device is gone."""

    text: str


@dataclass(frozen=True)
class Measurement:
    """A built candidate and how to measure it. `config` is number, repeat, min_repeat_ms."""

    path: str
    device_type: str
    args_info: list[Any]
    config: tuple[int, int, int]
    timeout_s: float
    limit_s: float | None
    """The limit of its race; None means no race."""


def artifact_suffix(target: Any) -> str:
    """A library if this machine can link for the device; else a tar of objects, which the device links."""
    from tvm.support import cc
    from tvm.target import codegen

    host = target.host or target
    here = str(codegen.llvm_get_system_triple())
    triple = str(dict(host.attrs).get("mtriple", here))
    alike = triple.partition("-")[0] == here.partition("-")[0] and ("linux" in triple) == ("linux" in here)
    return ".so" if alike and cc.get_cc() else ".tar"


def measure(server: Server, measurement: Measurement) -> Timing | WorkerError | Broken | Unreachable:
    """Measure in a session with the device. Runs in a worker."""
    return in_session(server, measurement, _measured)


def in_session(
    server: Server, measurement: Measurement, work: Callable[[Any, Measurement], Timing]
) -> Timing | WorkerError | Broken | Unreachable:
    """What the work gives; else whether there is no session, or its end, or an error of the candidate."""
    from tvm import rpc

    try:
        session = rpc.connect(server.host, server.port, server.match_key, session_timeout=measurement.timeout_s)
    except Exception as error:  # noqa: BLE001  TVM's exceptions can't be pickled
        return Unreachable(_text(error))
    try:
        return work(session, measurement)
    except Exception as error:  # noqa: BLE001
        return WorkerError(_text(error)) if _alive(session) else Broken(_text(error))


def connect(remote: Remote, timeout_s: float) -> Any:
    """Wait for a free device, and return a session with it that lasts at most `timeout_s`. Raises `Refused`."""
    from tvm import rpc

    deadline, reason = time.monotonic() + remote.patience_s, ""
    while time.monotonic() < deadline:
        try:
            if tracker.summary(remote.tracker).total(remote.key):
                with Tracker(remote.tracker, timeout_s=5.0) as connection:
                    server = connection.request(remote.key)
                return rpc.connect(server.host, server.port, server.match_key, session_timeout=timeout_s)
            reason = no_device(remote)
        except TrackerError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001  TVM raises various errors if a device doesn't answer
            reason = _text(error)
        time.sleep(POLL_S)
    raise Refused(gave_up(remote, reason))


def no_device(remote: Remote) -> str:
    return f"The tracker at {remote.tracker} has no device with the key {remote.key}."


def gave_up(remote: Remote, reason: str) -> str:
    return f"No device was available for {remote.patience_s:g} s. {reason}"


def _measured(session: Any, measurement: Measurement) -> Timing:
    from tvm.s_tir.meta_schedule.runner.rpc_runner import default_run_evaluator

    device, name = session.device(measurement.device_type, 0), Path(measurement.path).name
    session.upload(measurement.path, name)
    module = session.load_module(name)
    arguments = allocated(session.get_function(RANDOM_FILL), device, measurement.args_info)

    def run_secs(config: Any) -> list[float]:
        return [float(seconds) for seconds in default_run_evaluator(session, module, device, config, arguments)]

    return workers.measure_with_race(run_secs, measurement.config, measurement.limit_s)


def _text(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _alive(session: Any) -> bool:
    try:
        session.get_function("tvm.rpc.server.workpath")
    except Exception:  # noqa: BLE001
        return False
    return True
