"""Child processes that a foreground command keeps running and that never outlive it. No Django here."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import psutil

from tuning.engines.wire.lifeline import die_with
from tuning.engines.wire.signals import signal_name

GRACE_S = 10.0
"""How long a child may take to finish after SIGTERM."""
STEADY_S = 60.0
"""A child that ran this long started fine: when it crashes, the next pause is short again."""
LONGEST_PAUSE_S = 30.0
LARGEST_LOG = 10 * 1024 * 1024
"""A log of more bytes than this is put aside when its process starts."""


@dataclass
class Child:
    """A process in its own session, so that Ctrl-C in a terminal reaches its parent only, which decides."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    log: Path
    inherit: tuple[int, ...] = ()
    """File descriptors that it inherits."""
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_again_at: float | None = None
    pause_s: float = field(default=1.0, repr=False)

    def start(self) -> None:
        """Start it and append its output to its log."""
        parent = os.getpid()
        self.start_again_at = None
        self.started_at = time.monotonic()
        with _opened(self.log) as log:
            self.process = subprocess.Popen(
                self.command,
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.inherit,
                # Safe, since the command that starts children has only one thread.
                preexec_fn=lambda: die_with(parent),  # noqa: PLW1509
            )

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        code = self.process.poll() if self.process else None
        if code is None:
            return "is running"
        return f"was killed by {signal_name(-code)}" if code < 0 else f"ended with status {code}"

    def watch(self) -> str | None:
        """Restart it after a pause if it has crashed. Return a line to show if something happened."""
        if self.running:
            return None
        if self.start_again_at is None:
            if time.monotonic() - self.started_at > STEADY_S:
                self.pause_s = 1.0
            self.start_again_at = time.monotonic() + self.pause_s
            said = f"{self.name} {self.ending}; restarting it in {self.pause_s:.0f} s (see {self.log})"
            self.pause_s = min(self.pause_s * 2, LONGEST_PAUSE_S)
            return said
        if time.monotonic() >= self.start_again_at:
            self.start()
        return None

    def last_lines(self, count: int = 12) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])


def stop(children: Iterable[Child], *, grace_s: float = GRACE_S) -> None:
    """End children and all their descendants: SIGTERM, a grace period, SIGKILL."""
    processes = [child.process for child in children if child.process]
    family = _family(process.pid for process in processes)
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and any(process.poll() is None for process in processes):
        time.sleep(0.05)
    survivors = {*family, *_family(process.pid for process in processes)}
    for survivor in survivors:
        # psutil checks that the pid hasn't been reused by a stranger.
        with contextlib.suppress(psutil.NoSuchProcess):
            survivor.kill()
    for process in processes:
        process.wait()
    psutil.wait_procs(survivors, timeout=GRACE_S)


def _family(pids: Iterable[int]) -> list[psutil.Process]:
    members: list[psutil.Process] = []
    for pid in pids:
        try:
            head = psutil.Process(pid)
            members += [head, *head.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return members


def _opened(log: Path) -> BinaryIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(log.with_suffix(".old.log"))
    return log.open("ab")
