"""Two checkouts of Tuneboard side by side, each as one machine with its defaults: what starting, resting and a small run cost.

`python -m tests.benchmarks.web.checkouts BEFORE NOW [--pairs 5]`. Each has a `.venv` of its own or a link to one. They are measured in turn, and
the order changes with each pair; the machine should otherwise be idle. Prints the figures of each as JSON lines, then the medians of their ratios.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

import psutil

from tests.live import environment

SETTLE_S = 8.0
PORT = 7070
RUN = {
    "network": "matmul",
    "network_options": {"n": 64},
    "target": "this",
    "trials": 64,
    "trials_per_batch": 16,
    "seed": 1,
    "strategy": "replay-trace",
}


class Up:
    """`manage.py up` of a checkout, with SQLite and its own Valkey."""

    def __init__(self, checkout: Path, var: Path) -> None:
        self._env = environment(var)
        self._checkout, self._said = checkout, var.with_suffix(".txt")
        self._python = str(checkout / ".venv" / "bin" / "python")

    def start(self) -> float:
        """Seconds until the site answers."""
        began = time.monotonic()
        with self._said.open("wb") as output:
            command = [self._python, "manage.py", "up", "--port", str(PORT), "--no-demo"]
            started = subprocess.Popen(
                command, cwd=self._checkout, env=self._env, stdout=output, stderr=output, start_new_session=True
            )
        self._process = psutil.Process(started.pid)
        while "is ready at" not in self._said.read_text():
            if started.poll() is not None:
                raise RuntimeError(self._said.read_text())
            time.sleep(0.02)
        took_s = time.monotonic() - began
        command = [self._python, "manage.py", "create_token", "admin", "--role", "admin"]
        self._token = subprocess.check_output(command, cwd=self._checkout, env=self._env, text=True).split()[-1]
        return took_s

    def tune(self) -> tuple[float, float]:
        """Seconds until a run is over, and the most memory in bytes that was seen meanwhile. Raises `RuntimeError`."""
        began, most = time.monotonic(), 0
        run = self._ask("/api/v1/runs", RUN)
        while run["status"] in ("queued", "running", "stopping"):
            most = max(most, self.memory())
            time.sleep(0.2)
            run = self._ask(f"/api/v1/runs/{run['id']}")
        if run["status"] != "finished":
            raise RuntimeError(f"The run is {run['status']}: {run['error']}")
        return time.monotonic() - began, most

    def memory(self) -> int:
        """Of all processes; shared pages are counted in parts (PSS)."""
        found = 0
        for each in self._family():
            with suppress(psutil.Error):
                found += each.memory_full_info().pss
        return found

    def cpu_s(self) -> float:
        """Of all processes, and of those of them that have ended."""
        found = 0.0
        for each in self._family():
            with suppress(psutil.Error):
                found += sum(each.cpu_times()[:4])
        return found

    def stop(self) -> None:
        """As Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    def _family(self) -> list[psutil.Process]:
        return [self._process, *self._process.children(recursive=True)]

    def _ask(self, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body else None
        with urlopen(Request(f"http://127.0.0.1:{PORT}{path}", data, headers)) as answer:
            return json.load(answer)


def measure(checkout: Path) -> dict[str, float]:
    """The figures of one checkout: seconds, and megabytes."""
    with tempfile.TemporaryDirectory(prefix="checkouts-") as folder:
        site = Up(checkout, Path(folder) / "var")
        site.start()  # This makes the database.
        site.stop()
        answers_s = site.start()
        try:
            first_s, _ = site.tune()  # Only now have all processes loaded what they load.
            time.sleep(SETTLE_S)
            at_rest, before_s = site.memory(), site.cpu_s()
            run_s, most = site.tune()
            used_s = site.cpu_s() - before_s
            before_s = site.cpu_s()
            time.sleep(SETTLE_S)
            idle = (site.cpu_s() - before_s) / SETTLE_S
        finally:
            site.stop()
    return {
        "until the site answers (s)": answers_s,
        "first run after that (s)": first_s,
        "memory at rest (MB)": at_rest / 1e6,
        "memory with a run (MB)": most / 1e6,
        "a run (s)": run_s,
        "CPU of a run (s)": used_s,
        "CPU at rest (cores)": idle,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.web.checkouts", description=__doc__)
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="CHECKOUT")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args(arguments)
    found: list[list[dict[str, float]]] = [[], []]
    for pair in range(given.pairs):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            found[side].append(measure(given.checkouts[side].absolute()))
            sys.stdout.write(json.dumps({"side": side, **found[side][-1]}) + "\n")
            sys.stdout.flush()
    for name in found[0][0]:
        before, now = ([each[name] for each in side] for side in found)
        ratios = sorted(b / a for a, b in zip(before, now, strict=True) if a)
        told = f"{median(before):.4g} → {median(now):.4g}, ratio {median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        sys.stdout.write(f"{name}: {told}\n")


if __name__ == "__main__":
    main()
