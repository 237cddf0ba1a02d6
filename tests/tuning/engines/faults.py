"""Stand-ins for the workers' jobs that fail in the ways that compilers and measured functions do."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tuning.engines.measuring.sessions import in_session

HANG_S = 3600


def build(mod_json: str, target_json: str, path: str) -> None:
    """Do what the "module" says."""
    if mod_json == "hang":
        time.sleep(HANG_S)
    elif mod_json == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mod_json == "exit":
        os._exit(7)
    elif mod_json == "raise":
        raise ValueError("no such intrinsic")
    elif mod_json == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(HANG_S)
    Path(path).write_text(str(os.nice(0)) if mod_json == "nice" else mod_json)


def measure_forever(server: Any, measurement: Any) -> Any:
    """Keep the session open until the device ends it."""
    return in_session(server, measurement, _forever)


def _forever(session: Any, measurement: Any) -> Any:
    time.sleep(measurement.timeout_s + 2)
    _expect_no_answer(session)


def crash_session(server: Any, measurement: Any) -> Any:
    """Kill the process that serves the session, which the server has just forked."""
    return in_session(server, measurement, partial(_crashed, set(_tvm_servers())))


def _crashed(before: set[int], session: Any, measurement: Any) -> Any:
    session.get_function("tvm.rpc.server.workpath")
    for pid in set(_tvm_servers()) - before:
        os.kill(pid, signal.SIGSEGV)
    _expect_no_answer(session)


def _expect_no_answer(session: Any) -> None:
    session.get_function("tvm.rpc.server.workpath")
    raise AssertionError("The session is still alive.")


def _tvm_servers() -> list[int]:
    """Processes forked from RPC servers on this machine, which serve their sessions."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any("rpc_server" in " ".join(one.cmdline()) for one in process.parents()):
                found.append(process.pid)
    return found
