"""Confines itself, then becomes another program: `python -m tuning.engines.confinement.starting [options] -- PYTHON -m MODULE …`.

For programs whose interpreter is too old to confine itself. What confines and limits a process stays when it becomes another program.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tuning.engines.wire.lifeline import die_with
from tuning.engines.wire.question import Reach

from . import PROGRAMS, confine, limit, sentences

ASK = "import json, sys; print(json.dumps([sys.path, [sys.prefix, sys.base_prefix, sys.exec_prefix]]))"
"""The interpreter's own folders of packages and programs."""
ENVIRONMENT = ("VTA_HW_PATH", "VTA_CACHE_PATH", "TVM_LIBRARY_PATH")
"""Variables that name further folders of an older TVM."""


def main(argv: Sequence[str] | None = None) -> None:
    """Become the program. TMPDIR is the only folder that it may write to besides those named here."""
    parser = argparse.ArgumentParser(prog="python -m tuning.engines.confinement.starting")
    parser.add_argument("--read", action="append", default=[], help="a path that it may read")
    parser.add_argument("--write", action="append", default=[], help="a folder that it may write to")
    parser.add_argument("--network", action="store_true", help="leave it the network")
    parser.add_argument("--memory-mb", type=int, help="its address space")
    parser.add_argument("--cpu-s", type=int, help="its processor time in seconds")
    parser.add_argument("--quietly", action="store_true", help="run at low priority")
    parser.add_argument("--once", action="store_true", help="end with the process that started it")
    parser.add_argument("command", nargs="+", help="the program, which is an interpreter, and its arguments")
    given = parser.parse_args(argv)
    if given.once:
        die_with(os.getppid())
    reads = (*given.read, *_folders(given.command[0]))
    limit(given.memory_mb, given.cpu_s, quietly=given.quietly)
    in_force = confine(Reach(reads, tuple(given.write), network=given.network))
    said = sentences(in_force, network=given.network)
    os.write(2, f"{said}\n".encode())  # Stdout may be for answers.
    os.execv(given.command[0], given.command)  # noqa: S606 - no shell, and the command is the settings'


def _folders(python: str) -> list[str]:
    """What the interpreter reads of its own. Tuneboard's folder, which contains its data, isn't among them."""
    try:
        told = subprocess.run([python, "-c", ASK], capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout
        packages, prefixes = json.loads(told)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise SystemExit(f"{python} can't be started: {error}") from None
    ours = {Path(__file__).resolve().parents[3], Path.cwd()}
    shared = [path for path in packages if path and Path(path).resolve() not in ours]
    programs = [str(Path(prefix) / name) for prefix in prefixes for name in (*PROGRAMS, "pyvenv.cfg")]
    named = (os.environ.get(name, "").split(os.pathsep) for name in ENVIRONMENT)
    cache = str(Path.home() / ".vta_cache")
    return [*shared, *programs, str(Path(python).parent), cache, *(path for paths in named for path in paths if path)]


if __name__ == "__main__":
    main()
