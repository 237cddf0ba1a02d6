"""The processes of a site by what they do, however deep they are below `up`, and also once their parent is dead."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.live import LiveSite

WORDS = {"valkey-server": "Valkey", "dashboard.serve": "web"}
WORKER, PARENT, ONESHOT, TRACKER = (
    "tuning.queue.worker",
    "engines.forking.parent",
    "engines.oneshot",
    "resource_tracker",
)
BELOW = {
    "engine": "fork server",  # Or the copy that waits to replace it.
    "fork server": "build or measurement worker",
    "warm parent": "minder",
}
"""What the children of a process are, by what that process is."""


@dataclass(frozen=True)
class Victim:
    """A process, and what it does."""

    kind: str
    process: psutil.Process


class Victims:
    """Remembers every process that the site has had: one whose parent was killed is no longer a descendant of `up`."""

    def __init__(self, site: LiveSite) -> None:
        assert site.process
        self._up = psutil.Process(site.process.pid)
        self._kinds: dict[psutil.Process, str] = {}

    def alive(self) -> list[Victim]:
        """The site's processes that may be killed."""
        self._look()
        return [Victim(kind, process) for process, kind in self._kinds.items() if kind and _runs(process)]

    def left(self) -> list[Victim]:
        """Those that still run, `up` and its helpers included."""
        self._look()
        return [Victim(kind or "other", process) for process, kind in self._kinds.items() if _runs(process)]

    def one(self, dice: random.Random) -> Victim:
        """One of a random kind, so that kinds with many processes aren't preferred."""
        alive = self.alive()
        kind = dice.choice(sorted({victim.kind for victim in alive}))
        return dice.choice([victim for victim in alive if victim.kind == kind])

    def _look(self) -> None:
        for ancestor in [self._up, *self._kinds]:
            with suppress(psutil.Error, OSError):
                for process in ancestor.children(recursive=True):
                    if process not in self._kinds:
                        self._kinds[process] = self._kind(process)

    def _kind(self, process: psutil.Process) -> str:
        """What it does; empty if it isn't to be killed."""
        command, parent = " ".join(process.cmdline()), process.parent()
        above = self._kinds.get(parent, "") if parent else ""
        if parent == self._up:
            return next((kind for word, kind in WORDS.items() if word in command), _worker(process))
        if TRACKER in command:
            return "resource tracker"
        if parent and above == "engine" and _stands_above(parent, process):
            return "engine"
        if above in BELOW:
            return BELOW[above]
        if PARENT in command and above.startswith("worker"):
            return "warm parent"
        leads = os.getsid(process.pid) == process.pid
        return "engine" if leads and "tuning.engines" in command and ONESHOT not in command else "one-shot process"


def _worker(process: psutil.Process) -> str:
    command = process.cmdline()
    return f"worker {command[command.index(WORKER) + 1]}" if WORKER in command else ""


def _stands_above(parent: psutil.Process, process: psutil.Process) -> bool:
    """Whether the parent only waits: outside of the engine's namespace, or as the first process in it."""
    outer, inner = _ids(parent), _ids(process)
    return len(inner) > len(outer) or (len(outer) > 1 and outer[-1] == 1)


def _ids(process: psutil.Process) -> list[int]:
    """The ids of the process, in this namespace first and in its own last."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next([int(one) for one in line.split()[1:]] for line in lines if line.startswith("NSpid:"))


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
