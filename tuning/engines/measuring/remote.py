"""Measures on the devices that a TVM RPC tracker has under one key, on several at once.

A device that is lost costs the trial that it measured nothing: that one is measured again on another. To tell a lost
device from a candidate that ended its session, the tracker is asked whether the device is registered still.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from pebble import ProcessExpired, ProcessPool

from tuning.engines.wire import tracker
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import Remote
from tuning.engines.wire.tracker import Address, Server, Tracker, TrackerError

from . import race, workers
from .arguments import FILL, allocated
from .local import Failure
from .workers import Fault, Timing

logger = logging.getLogger("tuneboard")
LANES = 32
"""Devices of a key that one run uses at once, at most."""
POLL_S = 1.0
ATTEMPTS = 2
"""Devices that a candidate may be lost with: a server of TVM in Python ends when a candidate crashes its session."""
SETTLE_S = 1.0
"""The tracker learns of a lost device about when we do."""
GRACE_S = 10.0
"""A device ends a session that takes too long by itself, and is heard of when it still lives."""
_TIMED_OUT = "RPCSessionTimeoutError"


@dataclass(frozen=True)
class Unreached:
    """The tracker gave a device that can't be connected to from here."""

    text: str


@dataclass(frozen=True)
class Broken:
    """A session that ended in the middle: by the candidate, or since the device is gone."""

    text: str


@dataclass(frozen=True)
class Work:
    """One candidate, built, and how to measure it: `config` is number, repeat, min_repeat_ms."""

    path: str
    device_type: str
    args_info: list[Any]
    config: tuple[int, int, int]
    timeout_s: float
    limit_s: float | None
    """What is slower is measured shortly; None: in full, whatever it is."""


def suffix(target: Any) -> str:
    """A library when this machine links for the device's sort; else a tar of objects, which the device links."""
    from tvm.support import cc
    from tvm.target import codegen

    host = target.host or target
    here = str(codegen.llvm_get_system_triple())
    triple = str(dict(host.attrs).get("mtriple", here))
    alike = triple.partition("-")[0] == here.partition("-")[0] and ("linux" in triple) == ("linux" in here)
    return ".so" if alike and cc.get_cc() else ".tar"


def measure(server: Server, work: Work) -> Timing | Fault | Broken | Unreached:
    """Measure in one session with the device; runs in a worker."""
    from tvm import rpc

    try:
        session = rpc.connect(server.host, server.port, server.match_key, session_timeout=work.timeout_s)
    except Exception as error:  # noqa: BLE001  TVM's errors don't survive the way between processes
        return Unreached(_text(error))
    try:
        return _measured(session, work)
    except Exception as error:  # noqa: BLE001
        return Fault(_text(error)) if _alive(session) else Broken(_text(error))


def connected(remote: Remote, timeout_s: float) -> Any:
    """A session with a device of the key, once one is free; it lasts so long at most. Raises `Refused`."""
    from tvm import rpc

    deadline, why = time.monotonic() + remote.patience_s, ""
    while time.monotonic() < deadline:
        try:
            if tracker.summary(remote.tracker).total(remote.key):
                with Tracker(remote.tracker, timeout_s=5.0) as connection:
                    server = connection.request(remote.key)
                return rpc.connect(server.host, server.port, server.match_key, session_timeout=timeout_s)
            why = f"The tracker at {remote.tracker} has none of key {remote.key}."
        except TrackerError as trouble:
            why = str(trouble)
        except Exception as error:  # noqa: BLE001  whatever TVM raises when a device doesn't answer
            why = _text(error)
        time.sleep(POLL_S)
    raise Refused(f"No device could be used for {remote.patience_s:g} s. {why}")


def _measured(session: Any, work: Work) -> Timing:
    from tvm.s_tir.meta_schedule.runner.rpc_runner import default_run_evaluator

    device, name = session.device(work.device_type, 0), Path(work.path).name
    session.upload(work.path, name)
    module = session.load_module(name)
    arguments = allocated(session.get_function(FILL), device, work.args_info)

    def run_secs(config: Any) -> list[float]:
        return [float(seconds) for seconds in default_run_evaluator(session, module, device, config, arguments)]

    return workers.raced(run_secs, work.config, work.limit_s)


def _text(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _alive(session: Any) -> bool:
    try:
        session.get_function("tvm.rpc.server.workpath")
    except Exception:  # noqa: BLE001
        return False
    return True


class Fleet:
    """How many devices the key has; watched for as long as the run goes on.

    When there was none for `Remote.patience_s`, or the tracker didn't answer, `give_up` is called with the reason.
    """

    def __init__(self, remote: Remote, give_up: Callable[[str], object]) -> None:
        self._remote = remote
        self._give_up = give_up
        self._changed = threading.Condition()
        self._total = self._busy = 0
        self._missing_since = time.monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="fleet", daemon=True).start()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits until fewer are busy than there are: requests that only queue at the tracker would stand in others' way."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy < self._total)
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Watch no longer."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(POLL_S):
            total, why = self._look()
            with self._changed:
                if total != self._total:
                    logger.info("%s: %d device%s.", self._remote, total, "" if total == 1 else "s")
                self._total = min(total, LANES)
                self._changed.notify_all()
            if total:
                self._missing_since = time.monotonic()
            elif time.monotonic() > self._missing_since + self._remote.patience_s:
                self._give_up(f"No device could be used for {self._remote.patience_s:g} s. {why}")

    def _look(self) -> tuple[int, str]:
        """The number of devices, and why there is none."""
        remote = self._remote
        try:
            total = tracker.summary(remote.tracker).total(remote.key)
        except TrackerError as trouble:
            return 0, str(trouble)
        return total, f"The tracker at {remote.tracker} has none of key {remote.key}."


class RemoteRunner:
    """Measures built candidates, in as many threads as call it; each in a session of its own."""

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
        self._fleet = Fleet(remote, give_up)
        self._local = threading.local()
        self._pools: list[ProcessPool] = []
        self._unreached_since: float | None = None

    def run(self, path: Path, device_type: str, args_info: list[Any], limit_s: float | None = None) -> Timing | Failure:
        """Measure once a device is free, but only shortly what is slower than the limit. The artifact is gone afterwards."""
        limit_s = limit_s if race.is_worthwhile(self._config) else None
        work = Work(str(path), device_type, args_info, self._config, self._timeout_s, limit_s)
        lost_on: list[Server] = []
        outcome = None
        while outcome is None:
            server, result, took_s = self._tried(work)
            if isinstance(result, Unreached):
                self._unreached(server, result)
                continue
            self._unreached_since = None
            outcome = self._judged(result, server, took_s)
            if outcome is None:
                logger.warning("The device at %s:%d was lost in the middle of a trial.", server.host, server.port)
                lost_on.append(server)
            if len(lost_on) == ATTEMPTS:
                outcome = Failure("run", f"{ATTEMPTS} devices were lost while they measured this candidate.")
        path.unlink(missing_ok=True)
        return outcome

    def _tried(self, work: Work) -> tuple[Server, Any, float]:
        """The device that was free, what `_session` gives, and the seconds that it took."""
        with self._fleet.turn():
            server = self._free_server()
            began = time.monotonic()
            return server, self._session(server, work), time.monotonic() - began

    def close(self) -> None:
        """Stop the workers and the watch."""
        self._fleet.close()
        for pool in self._pools:
            pool.stop()  # type: ignore[no-untyped-call]
            pool.join()

    def _free_server(self) -> Server:
        """The next free device, through whatever happens to the tracker: the fleet's watch gives up in time."""
        while True:
            try:
                with Tracker(self._remote.tracker, timeout_s=5.0) as connection:
                    return connection.request(self._remote.key)
            except TrackerError as trouble:
                logger.warning("%s", trouble)
                time.sleep(POLL_S)

    def _unreached(self, server: Server, result: Unreached) -> None:
        """The candidate isn't to blame; its trial waits for a better device, but not for ever."""
        why = f"The tracker gives {server.host}:{server.port}, which can't be connected to from here: {result.text}"
        logger.warning("%s", why)
        self._unreached_since = self._unreached_since or time.monotonic()
        if time.monotonic() > self._unreached_since + self._remote.patience_s:
            self._give_up(why)
        time.sleep(POLL_S)

    def _session(self, server: Server, work: Work) -> Any:
        """What `measure` gives; None when the device had no answer in time."""
        timeout_s = work.timeout_s + GRACE_S
        future = self._pool().schedule(workers.guarded, (measure, server, work), timeout=timeout_s)
        try:
            return future.result()
        except futures.TimeoutError:
            return None
        except (ProcessExpired, futures.process.BrokenProcessPool) as error:
            return Broken(f"The session's process ended: {error}")

    def _pool(self) -> ProcessPool:
        pool = getattr(self._local, "pool", None)
        if pool is None or not pool.active:
            pool = ProcessPool(1, initializer=workers.begin, initargs=(None,), context=self._context)
            self._local.pool = pool
            self._pools.append(pool)
        return pool

    def _judged(self, result: Any, server: Server, took_s: float) -> Timing | Failure | None:
        """The trial's outcome; None when it has none, since the device was lost."""
        if isinstance(result, Timing):
            return result
        if isinstance(result, Fault):
            return Failure("run", result.text)
        if result is None:  # It didn't even end the session: its machine hangs, or is off.
            return None
        if _TIMED_OUT in result.text or took_s >= self._timeout_s:
            return Failure("run_timeout", f"Took longer than {self._timeout_s:g} s to run, and was stopped.")
        time.sleep(SETTLE_S)
        if self._registered(server):
            return Failure("run", f"The session with the device ended in the middle: {result.text}")
        return None

    def _registered(self, server: Server) -> bool:
        try:
            servers = tracker.summary(self._remote.tracker).servers
        except TrackerError:
            return False
        return (self._remote.key, Address(server.host, server.port)) in servers
