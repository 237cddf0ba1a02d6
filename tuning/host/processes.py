"""Child processes that a foreground command keeps running, and that never outlive it. No Django here."""

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
"""For which a child may finish what it is at, after SIGTERM."""
STEADY_S = 60.0
"""A child that lived this long has started well: when it crashes, the next pause is short again."""
LONGEST_PAUSE_S = 30.0
LARGEST_LOG = 10 * 1024 * 1024
"""Bytes of a log at which it is put aside when its process starts."""


@dataclass
class Child:
    """One process in a session of its own, so that a terminal's Ctrl-C doesn't reach it before its parent decides."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    log: Path
    inherit: tuple[int, ...] = ()
    """File descriptors that it gets."""
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_again_at: float | None = None
    pause_s: float = field(default=1.0, repr=False)

    def start(self) -> None:
        """Starts it; its output is added to its log."""
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
                # Safe here: the command that starts children has one thread.
                preexec_fn=lambda: die_with(parent),  # noqa: PLW1509
            )

    @property
    def running(self) -> bool:
        """Whether it is alive."""
        return self.process is not None and self.process.poll() is None

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        code = self.process.poll() if self.process else None
        if code is None:
            return "is running"
        return f"was killed by {signal_name(-code)}" if code < 0 else f"ended with status {code}"

    def watch(self) -> str | None:
        """Starts it again, after a pause, when it has crashed. Gives a line to show when something happened."""
        if self.running:
            return None
        if self.start_again_at is None:
            if time.monotonic() - self.started_at > STEADY_S:
                self.pause_s = 1.0
            self.start_again_at = time.monotonic() + self.pause_s
            said = f"{self.name} {self.ending}; starting it again in {self.pause_s:.0f} s (see {self.log})"
            self.pause_s = min(self.pause_s * 2, LONGEST_PAUSE_S)
            return said
        if time.monotonic() >= self.start_again_at:
            self.start()
        return None

    def last_lines(self, count: int = 12) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])


def stop(children: Iterable[Child], *, grace_s: float = GRACE_S) -> None:
    """Ends children and all their descendants: SIGTERM, a time of grace, SIGKILL."""
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
        # psutil's handle can't hit a stranger that got the number of a process that has ended.
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
