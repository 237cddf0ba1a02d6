"""Measures on the devices that a TVM RPC tracker has with one key, several at a time.

A trial whose device is lost isn't lost: it is measured again on another device. To tell a lost device from a candidate
that crashed its session, the tracker is asked whether the device is still registered.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from tuning.engines.wire import tracker
from tuning.engines.wire.protocol import Remote
from tuning.engines.wire.tracker import Address, Server, Tracker, TrackerError

from . import race, sessions
from .devices import RemoteDevices
from .outcomes import Failure, Timing, WorkerError
from .pools import Ended, TimedOut, Workers
from .sessions import POLL_S, Broken, Measurement, Unreachable

logger = logging.getLogger("tuneboard")
ATTEMPTS = 2
"""How many devices a candidate may be lost with. A Python RPC server ends with a session that a candidate crashes."""
SETTLE_S = 1.0
"""The tracker may learn of a lost device a little later than we do."""
GRACE_S = 10.0
"""A live device ends a session that takes too long by itself, and reports it within this time."""
_TIMED_OUT = "RPCSessionTimeoutError"


class RemoteRunner:
    """Measures built candidates in as many threads as call it, each candidate in a session of its own."""

    def __init__(
        self,
        context: ForkServerContext,
        remote: Remote,
        *,
        config: tuple[int, int, int],
        timeout_s: float,
        give_up: Callable[[str], object],
    ) -> None:
        self._context = context
        self._remote = remote
        self._config = config
        self._timeout_s = timeout_s
        self._give_up = give_up
        self._devices = RemoteDevices(remote, give_up)
        self._local = threading.local()
        self._all_workers: list[Workers] = []
        self._unreachable_since: float | None = None

    def run(
        self,
        path: Path,
        device_type: str,
        args_info: list[Any],
        limit_s: float | None = None,
        cold_bytes: int = 0,  # noqa: ARG002  weights stay in the caches: how cold these are isn't up to this machine
    ) -> Timing | Failure:
        """Wait for a free device, then as `Runner`."""
        limit_s = limit_s if race.is_worthwhile(self._config) else None
        measurement = Measurement(str(path), device_type, args_info, self._config, self._timeout_s, limit_s)
        lost_on: list[Server] = []
        outcome = None
        while outcome is None:
            server, result, took_s = self._attempt(measurement)
            if isinstance(result, Unreachable):
                self._wait_for_another(server, result)
                continue
            self._unreachable_since = None
            outcome = self._outcome(result, server, took_s)
            if outcome is None:
                logger.warning("The device at %s:%d was lost in the middle of a trial.", server.host, server.port)
                lost_on.append(server)
            if len(lost_on) == ATTEMPTS:
                outcome = Failure("run", f"{ATTEMPTS} devices were lost while they measured this candidate.")
        path.unlink(missing_ok=True)
        return outcome

    def close(self) -> None:
        """Stop the workers and the counting of devices."""
        self._devices.close()
        for own in self._all_workers:
            own.close()

    def _attempt(self, measurement: Measurement) -> tuple[Server, Any, float]:
        """The device that was free, the result of `_session`, and how many seconds that took."""
        with self._devices.reserve():
            server = self._free_server()
            began = time.monotonic()
            return server, self._session(server, measurement), time.monotonic() - began

    def _free_server(self) -> Server:
        """Wait for a free device, even while the tracker is down: `RemoteDevices` gives up in time."""
        while True:
            try:
                with Tracker(self._remote.tracker, timeout_s=5.0) as connection:
                    return connection.request(self._remote.key)
            except TrackerError as error:
                logger.warning("%s", error)
                time.sleep(POLL_S)

    def _wait_for_another(self, server: Server, result: Unreachable) -> None:
        """It isn't the candidate's fault, so its trial waits for another device, but not forever."""
        reason = f"The tracker assigns {server.host}:{server.port}, which can't be reached from here: {result.text}"
        logger.warning("%s", reason)
        self._unreachable_since = self._unreachable_since or time.monotonic()
        if time.monotonic() > self._unreachable_since + self._remote.patience_s:
            self._give_up(reason)
        time.sleep(POLL_S)

    def _session(self, server: Server, measurement: Measurement) -> Any:
        """The result of `sessions.measure`; None if the device didn't answer in time."""
        timeout_s = measurement.timeout_s + GRACE_S
        ((_, result),) = self._workers().results([(sessions.measure, server, measurement)], timeout_s)
        if isinstance(result, TimedOut):
            return None
        return Broken(f"The session's process {result.how}") if isinstance(result, Ended) else result

    def _workers(self) -> Workers:
        """The worker of the thread that calls."""
        own: Workers | None = getattr(self._local, "workers", None)
        if own is None:
            own = self._local.workers = Workers(self._context, 1)
            self._all_workers.append(own)
        return own

    def _outcome(self, result: Any, server: Server, took_s: float) -> Timing | Failure | None:
        """The trial's outcome; None if the device was lost."""
        if isinstance(result, Timing):
            return replace(result, used_s=took_s)
        if isinstance(result, WorkerError):
            return Failure("run", result.text)
        if result is None:  # It didn't even end the session, so its machine hangs or is off.
            return None
        if _TIMED_OUT in result.text or took_s >= self._timeout_s:
            return Failure("run_timeout", f"Took longer than {self._timeout_s:g} s to run, and was stopped.")
        time.sleep(SETTLE_S)
        if self._is_registered(server):
            return Failure("run", f"The session with the device ended early: {result.text}")
        return None

    def _is_registered(self, server: Server) -> bool:
        try:
            servers = tracker.summary(self._remote.tracker).servers
        except TrackerError:
            return False
        return (self._remote.key, Address(server.host, server.port)) in servers
