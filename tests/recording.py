"""A synthetic run recorded live on a site: pages receive its deltas as if it were being tuned."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import TracebackType

from typing_extensions import Self

from tests.live import ROOT, LiveSite


class Recording:
    """A run of `trials` trials, recorded from `go()` on, `batch` of them every `pause_s` seconds; deleted on exit.

    After `hold_after` trials, it waits for another `go()`.
    """

    def __init__(self, site: LiveSite, trials: int, batch: int, pause_s: float, hold_after: int = 0) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.web.recording", str(trials), str(batch), str(pause_s)]
        command += [f"--hold-after={hold_after}"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=site.env, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Self:
        assert self.process.stdout
        self.run = int(self.process.stdout.readline())
        return self

    def go(self) -> None:
        """Starts recording, or continues."""
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.send_signal(signal.SIGINT)
        self.process.communicate("go\n", timeout=120)
