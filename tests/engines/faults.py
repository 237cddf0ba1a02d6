"""Stand-ins for what a worker does, of the kinds that a compiler or a measured function has in store."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

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
