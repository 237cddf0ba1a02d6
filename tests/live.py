"""The whole site in its own processes, as `manage.py up` starts it, for browser tests and tests that kill processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from tests.signing_in import signed_in
from tuning.engines.wire.lifeline import die_with

ROOT = Path(__file__).resolve().parent.parent
START_S = 120
STOP_S = 40


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(var: Path, database_url: str | None = None) -> dict[str, str]:
    """The environment of a separate Tuneboard process, without the tests' own settings."""
    ours = ("TUNEBOARD_", "DATABASE_URL", "REDIS_URL", "DJANGO_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env |= {"TUNEBOARD_VAR": str(var), "DJANGO_SETTINGS_MODULE": "dashboard.settings", "PYTHONUNBUFFERED": "1"}
    env["TUNEBOARD_ROOFLINE"] = "false"  # It would take the first run of each site seconds.
    return env | ({"DATABASE_URL": database_url} if database_url else {})


class LiveSite:
    """`manage.py up` on a free loopback port, with its own folder and database."""

    def __init__(self, var: Path, database_url: str | None = None) -> None:
        self.var = var
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = environment(var, database_url)
        self.output = var.parent / f"{var.name}.up.txt"
        self.process: subprocess.Popen[bytes] | None = None
        self._commands: subprocess.Popen[str] | None = None
        self._tokens: dict[str, str] = {}

    def launch(self, *options: str) -> None:
        """Starts it and returns at once."""
        command = [sys.executable, str(ROOT / "manage.py"), "up", "--port", str(self.port)]
        self.spawn([*command, *(options or ("--no-demo",))])

    def spawn(self, command: Sequence[str], at: Path = ROOT) -> None:
        """Starts its main process, which ends with the tests, even if they are killed."""
        tests = os.getpid()
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env=self.env,
                cwd=at,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: die_with(tests),  # noqa: PLW1509 - fixtures run in the main thread
            )

    def start(self, *options: str) -> None:
        """Starts it and waits until it says it is ready."""
        self.launch(*options)
        self.wait_for(lambda: f"ready at {self.url}" in self.said() or not self.running, START_S)
        assert self.running, f"up ended:\n{self.said()}"

    def said(self) -> str:
        return self.output.read_text()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> int:
        """Stops it as Ctrl-C would; returns its exit status."""
        assert self.process
        if self.running:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def close(self) -> None:
        """Stops everything that still runs."""
        if self.running:
            self.stop()
        if self._commands is not None:
            self._commands.communicate()

    def wait_for(self, condition: Any, within_s: float = 30) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {within_s} s; up said:\n{self.said()}"
            time.sleep(0.1)

    def manage(self, *args: str) -> str:
        """Runs a manage.py command on this site; returns its stdout."""
        answer = self._answer(args)
        assert answer["status"] == 0, answer["stderr"]
        stdout: str = answer["stdout"]
        return stdout

    def refusal(self, *args: str) -> str:
        """Runs a manage.py command that is expected to fail; returns what it says."""
        answer = self._answer(args)
        assert answer["status"] != 0, answer["stdout"]
        stderr: str = answer["stderr"]
        return stderr

    def _answer(self, args: Sequence[str]) -> dict[str, Any]:
        server = self._command_server()
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(args) + "\n")
        server.stdin.flush()
        answer: dict[str, Any] = json.loads(server.stdout.readline())
        return answer

    def _command_server(self) -> subprocess.Popen[str]:
        """Loading Django takes seconds, so one process does it for all commands; it ends when its stdin is closed."""
        if self._commands is None:
            command = [sys.executable, "-m", "tests.command_server"]
            pipe = subprocess.PIPE
            self._commands = subprocess.Popen(command, env=self.env, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        return self._commands

    def login_url(self, user: str = "admin") -> str:
        """A fresh one-time login URL of this site."""
        return self.manage("login_url", user, "--base", self.url).strip()

    @cached_property
    def cookies(self) -> list[Any]:
        """The cookies of a signed-in admin, as Playwright takes them."""
        cookies = signed_in(self.login_url())
        return [{"name": cookie.name, "value": cookie.value or "", "url": self.url} for cookie in cookies]

    def token(self, role: str = "operator") -> str:
        """An API token of this role, always the same."""
        if role not in self._tokens:
            self._tokens[role] = self.manage("create_token", f"{role}-of-tests", "--role", role).strip()
        return self._tokens[role]

    def api(self, method: str, path: str, body: Any = None, *, token: str) -> tuple[int, Any]:
        """Calls /api/v1PATH; returns the status and the JSON."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.loads(response.read() or "null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def processes(self, *words: str) -> list[psutil.Process]:
        """The site's processes whose command line contains all these words, such as "dashboard.serve"."""
        assert self.process
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if all(word in " ".join(process.cmdline()) for word in words):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    def kill(self, *words: str) -> None:
        """Kills (SIGKILL) the site's processes whose command line contains all these words."""
        victims = self.processes(*words)
        assert victims, f"no process of the site has {words}"
        for victim in victims:
            victim.kill()
        psutil.wait_procs(victims, timeout=30)

    def restart_web(self) -> None:
        """Kills the web process and waits until `up` has started another one that answers."""
        self.kill("dashboard.serve")
        self.wait_for(lambda: self.processes("dashboard.serve") and self.answers())

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=2):
                return True
        except OSError:
            return False
