"""Stand-ins for what a worker does, of the kinds that a compiler or a measured function has in store."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tuning.engines.measuring.remote import Broken

PATIENCE = 3600


def build(mod_json: str, target_json: str, path: str) -> None:
    """Does what its "module" says."""
    if mod_json == "hang":
        time.sleep(PATIENCE)
    elif mod_json == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mod_json == "exit":
        os._exit(7)
    elif mod_json == "raise":
        raise ValueError("no such intrinsic")
    elif mod_json == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(PATIENCE)
    Path(path).write_text(mod_json)


def measure_for_ever(server: Any, work: Any) -> Any:
    """A session that lasts until the device ends it."""
    from tvm import rpc

    session = rpc.connect(server.host, server.port, server.match_key, session_timeout=work.timeout_s)
    time.sleep(work.timeout_s + 2)
    return _broken(session)


def crash_the_session(server: Any, work: Any) -> Any:
    """The process that serves the session dies; the newest one below the server's."""
    from tvm import rpc

    before = set(_tvm_servers())
    session = rpc.connect(server.host, server.port, server.match_key, session_timeout=work.timeout_s)
    session.get_function("tvm.rpc.server.workpath")
    for pid in set(_tvm_servers()) - before:
        os.kill(pid, signal.SIGSEGV)
    return _broken(session)


def _broken(session: Any) -> Any:
    try:
        session.get_function("tvm.rpc.server.workpath")
    except Exception as error:  # noqa: BLE001
        return Broken(str(error))
    raise AssertionError("The session lives still.")


def _tvm_servers() -> list[int]:
    """Processes of the servers on this machine: sessions are forked from the one that listens."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any("rpc_server" in " ".join(one.cmdline()) for one in process.parents()):
                found.append(process.pid)
    return found
