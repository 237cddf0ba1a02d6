"""The whole site with a temporary folder and database, as `manage.py up` starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from tests.benchmarks.engine.sides import Broken
from tests.signing_in import signed_in
from tuning.engines.wire.lifeline import die_with

START_S = 180
STOP_S = 60
OURS = ("TUNEBOARD_", "DATABASE_URL", "REDIS_URL", "ALLOWED_HOSTS")
"""Prefixes of settings for the user's own site, which this one ignores."""


class Site:
    """`up` with its own folder and database. Raises `Broken` with its output on failure."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        self.output = folder / "up.txt"
        env = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.env = {**env, "TUNEBOARD_VAR": str(folder / "var"), "PYTHONUNBUFFERED": "1"}
        self.env["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
        if database_url:
            self.env["DATABASE_URL"] = database_url
        self.lock = folder / "var" / "up.lock"
        self.url, self.cookie = "", ""

    def manage(self, *args: str) -> str:
        """Runs a manage.py command on this site; returns its stdout."""
        command = [sys.executable, "manage.py", *args]
        done = subprocess.run(command, env=self.env, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Broken(f"manage.py {' '.join(args)}: {done.stderr[-2000:]}")
        return done.stdout

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serves until the block ends; `cookie` is a session of the admin."""
        ours = os.getpid()
        with self.output.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", "0", "--no-demo"],
                env=self.env,
                cwd=settings.BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: die_with(ours),  # noqa: PLW1509 - the command has one thread
            )
        self.process = psutil.Process(process.pid)
        try:
            self._wait(process)
            self.url = json.loads(self.lock.read_text())["url"]
            cookies = signed_in(self.manage("login_url", "--base", self.url).strip())
            self.cookie = "; ".join(f"{cookie.name}={cookie.value}" for cookie in cookies)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_S)

    def _wait(self, process: subprocess.Popen[Any]) -> None:
        deadline = time.monotonic() + START_S
        while "is ready at" not in (said := self.output.read_text()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Broken(f"The site didn't start:\n{said[-2000:]}")
            time.sleep(0.2)

    def web_memory(self) -> int:
        """Memory of the web process in bytes (RSS)."""
        processes = [one for one in self._family() if "dashboard.serve" in " ".join(one.cmdline())]
        return sum(int(one.memory_info().rss) for one in processes)

    def whole_memory(self) -> int:
        """Memory of `up` and all its processes in bytes; shared pages count once (PSS)."""
        return sum(int(one.memory_full_info().pss) for one in self._family())

    def _family(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]
