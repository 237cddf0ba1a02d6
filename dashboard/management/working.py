"""What `up` and `join` share: the workers of this machine, the processes that they run in, and how all of it ends."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections

from tuning.engines.wire.lifeline import die_with
from tuning.host.processes import Child, stop
from tuning.models import Machine
from tuning.queue.celery import COMPILE_QUEUE, EXTRACT_QUEUE, WATCH_QUEUE, WEBHOOK_QUEUE
from tuning.validation import MACHINE_NAME, NO_MACHINE_NAME

Say = Callable[[str], None]


class Workers:
    """The worker processes of this machine."""

    def __init__(self, env: Mapping[str, str], *, only_devices: bool = False, alive: Path | None = None) -> None:
        """`only_devices`: the others run elsewhere. `alive` is the file that the first device's worker touches while it works."""
        self._env = env
        commands = {device: _worker(device, f"device.{device}") for device in settings.DEVICES}
        if alive:
            commands[settings.DEVICES[0]] += ["--alive", str(alive)]
        self._tuning = self._made(commands)
        self._helping = self._made({} if only_devices else _helpers())
        self._working: set[str] = set()

    def start(self) -> None:
        """Start all of them."""
        self._run({**self._tuning, **self._helping})

    def stop(self) -> None:
        """End all of them."""
        self._end(set(self._working))

    def tick(self, machine: Machine | None, say: Say) -> None:
        """Restart those that crashed, and say so; have those work that the machine's state allows.

        While it is drained, only the devices' workers go on, with what they have in hand: they take nothing by themselves.
        So it is while its disk is full. While something about it doesn't fit, none does.
        """
        wanted = {**self._tuning, **self._helping}
        if machine is not None and machine.trouble and not machine.is_full:
            wanted = {}
        elif machine is not None and (machine.is_draining or machine.is_full):
            wanted = self._tuning
        self._end(self._working - wanted.keys())
        self._run({name: child for name, child in wanted.items() if name not in self._working})
        for name in sorted(self._working):
            if message := wanted[name].watch():
                say(message)

    def working(self) -> list[Child]:
        """Those that were started and not ended."""
        both = {**self._tuning, **self._helping}
        return [both[name] for name in sorted(self._working)]

    def _made(self, commands: Mapping[str, list[str]]) -> dict[str, Child]:
        logs = settings.VAR / "logs"
        names = {f"worker-{name}": command for name, command in commands.items()}
        return {name: Child(name, command, self._env, logs / f"{name}.log") for name, command in names.items()}

    def _run(self, children: Mapping[str, Child]) -> None:
        for name, child in children.items():
            child.start()
            self._working.add(name)

    def _end(self, names: Iterable[str]) -> None:
        both = {**self._tuning, **self._helping}
        if ending := sorted(names):
            stop(both[name] for name in ending)
            self._working -= set(ending)


def _helpers() -> dict[str, list[str]]:
    """Workers that measure nothing on this machine."""
    commands = {}
    if settings.TRACKERS:
        commands["remote"] = _worker("remote", "device.rpc", settings.REMOTE_RUNS)
    if settings.WATCH_FOLDERS:
        commands["watch"] = _worker("watch", WATCH_QUEUE, settings.WATCHES)
    for queue in (EXTRACT_QUEUE, COMPILE_QUEUE):
        commands[queue] = _worker(queue, f"{queue},{WEBHOOK_QUEUE}")
    return commands


def _worker(name: str, queues: str, concurrency: int = 1) -> list[str]:
    return [sys.executable, "-m", "tuning.queue.worker", name, queues, "--concurrency", str(concurrency)]


def environment() -> dict[str, str]:
    """The environment of the children: our own, with settings made explicit."""
    return os.environ | {
        "PYTHONPATH": str(settings.BASE_DIR),
        "PYTHONUNBUFFERED": "1",
        "TUNEBOARD_MACHINE": settings.MACHINE,
        "TUNEBOARD_VAR": str(settings.VAR),
    }


def call_machine(name: str | None) -> None:
    """Call this machine by the name, if one is given. Raises `CommandError` if no machine can have it."""
    if name is None:
        return
    if not re.fullmatch(MACHINE_NAME, name):
        raise CommandError(f"--name {name}: {NO_MACHINE_NAME}.")
    settings.MACHINE = name


def let_signals_interrupt() -> None:
    """Handle SIGTERM and SIGHUP like Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with it ignored
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, signal.default_int_handler)


def ignore_signals() -> None:
    """From now on: a second Ctrl-C must not leave processes behind, which are killed after a timeout anyway."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def check_tvm() -> None:
    """Raises `CommandError` if the installed TVM packages aren't the pinned ones."""
    check = [sys.executable, "-m", "tuning.engines.wire.versions"]
    done = subprocess.run(check, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(done.stderr.strip())


def apart(step: Callable[[], None]) -> None:
    """Run a step of the start in a process of its own, to free the 50 MB that it takes.

    Raises `CommandError` if it fails, after it has printed the reason.
    """
    connections.close_all()  # Processes can't share connections.
    process = multiprocessing.get_context("fork").Process(target=_do, args=(step, os.getpid()), daemon=True)
    process.start()
    process.join()
    if process.exitcode:
        raise CommandError("It can't start: see the reason above.")


def _do(step: Callable[[], None], parent: int) -> None:
    die_with(parent)
    try:
        step()
    except CommandError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(1)  # The parent prints that it is stopping.
