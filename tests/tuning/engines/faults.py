"""Stand-ins for the workers' jobs that fail in the ways that compilers and measured functions do."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tuning.engines.measuring.sessions import Broken

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
    from tvm import rpc

    session = rpc.connect(server.host, server.port, server.match_key, session_timeout=measurement.timeout_s)
    time.sleep(measurement.timeout_s + 2)
    return _broken(session)


def crash_session(server: Any, measurement: Any) -> Any:
    """Kill the process that serves the session, which the server has just forked."""
    from tvm import rpc

    before = set(_tvm_servers())
    session = rpc.connect(server.host, server.port, server.match_key, session_timeout=measurement.timeout_s)
    session.get_function("tvm.rpc.server.workpath")
    for pid in set(_tvm_servers()) - before:
        os.kill(pid, signal.SIGSEGV)
    return _broken(session)


def _broken(session: Any) -> Any:
    try:
        session.get_function("tvm.rpc.server.workpath")
    except Exception as error:  # noqa: BLE001
        return Broken(str(error))
    raise AssertionError("The session is still alive.")


def _tvm_servers() -> list[int]:
    """Processes forked from RPC servers on this machine, which serve their sessions."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any("rpc_server" in " ".join(one.cmdline()) for one in process.parents()):
                found.append(process.pid)
    return found
