"""What `manage.py` does before Django: ensure an environment with everything that is pinned. Standard library only.

An environment that already has every pin of requirements.txt (a container, the user's own virtualenv) is used as is.
Otherwise `.venv` next to manage.py is created, filled and entered. A stamp in it, written last, holds the digest of
the requirements, so after an interrupted installation or a changed pin the next call installs again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
RUN = ("requirements.txt",)
TEST = (*RUN, "tests/requirements.txt")

CAUSES = (
    (
        r"DO NOT MATCH THE HASHES[^\n]*\s+(?:\S+ +)?([\w.-]+)==(\S+)",
        r"Nothing was installed: the index's \1 \2 isn't the file that was pinned (its SHA-256 differs). Check your index",
    ),
    (r"No space left on device", "The disk is full. Make room (about 2 GB are needed)"),
    (
        r"SSLError|CERTIFICATE_VERIFY_FAILED",
        "The package index's certificate isn't trusted. Set PIP_CERT to your CA's certificate",
    ),
    (
        r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|Network is unreachable|Max retries",
        "The package index can't be reached. Check the network (or pip's proxy and index settings)",
    ),
    (r"Permission denied", "A file can't be written. Run the command as the owner of this folder"),
    (
        r"(?:No matching distribution found for|ERROR: Cannot install) (\S+)",
        r"There is no package \1 for this Python and system (README.md says which work)",
    ),
)
"""Patterns in pip's log, and the advice to give."""


def main(argv: Sequence[str]) -> None:
    """Run a command of manage.py in an environment that has what it needs."""
    if os.name != "posix":
        sys.exit("Tuneboard runs on Linux and macOS.")
    wanted = TEST if argv[1:2] == ["test"] else RUN
    if Path(sys.prefix) == VENV:
        _update(wanted, argv)
    elif not _has_pins(wanted):
        _enter(wanted, argv)
    _run(list(argv))


def _run(argv: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    from django.core.management import execute_from_command_line
    from environs import EnvError

    try:
        execute_from_command_line(argv)
    except EnvError as error:
        sys.exit(f"A setting is wrong: {error}. docs/settings.md lists them.")


def _enter(wanted: Sequence[str], argv: Sequence[str]) -> NoReturn:
    """Continue inside `.venv`, after creating or updating it if needed."""
    if not (_is_fresh(wanted) and os.access(PYTHON, os.X_OK)):
        with _locked() as lock:
            if not (_is_fresh(wanted) and os.access(PYTHON, os.X_OK)):  # another call may have done it while we waited
                _make_venv()
                _install(wanted, lock)
    _continue_in(PYTHON, argv)


def _update(wanted: Sequence[str], argv: Sequence[str]) -> None:
    """Update `.venv` from within."""
    if importlib.util.find_spec("pip") is None:
        # The Python it was created with was replaced by another version, which must create it again.
        for stamp in VENV.glob(".installed-*"):
            stamp.unlink()
        _continue_in(Path(sys.executable).resolve(), argv)
    if not _is_fresh(wanted):
        with _locked() as lock:
            if not _is_fresh(wanted):
                _install(wanted, lock)


def _continue_in(python: Path, argv: Sequence[str]) -> NoReturn:
    os.execv(python, [str(python), str(ROOT / "manage.py"), *argv[1:]])  # noqa: S606 - there is no shell, on purpose


def _has_pins(wanted: Sequence[str]) -> bool:
    """Whether the current environment has every pinned package in its pinned version."""
    pins = re.findall(
        r"^([\w.-]+)(?:\[.*?\])?==([^\s;]+)", "\n".join((ROOT / name).read_text() for name in wanted), re.MULTILINE
    )
    try:
        return all(importlib.metadata.version(name) == version for name, version in pins)
    except importlib.metadata.PackageNotFoundError:
        return False


def _stamp(wanted: Sequence[str]) -> Path:
    return VENV / (".installed-test" if wanted == TEST else ".installed-run")


def _digest(wanted: Sequence[str]) -> str:
    return hashlib.sha256(b"\0".join((ROOT / name).read_bytes() for name in (_lock_file(wanted), *wanted))).hexdigest()


def _lock_file(wanted: Sequence[str]) -> str:
    """Name of the file with all pins and hashes; that of the last requirements has those of the others, too."""
    return wanted[-1].replace(".txt", ".lock")


def _is_fresh(wanted: Sequence[str]) -> bool:
    try:
        return _stamp(wanted).read_text() == _digest(wanted)
    except OSError:
        return False


@contextmanager
def _locked() -> Iterator[int]:
    """Lock the folder, so that two calls don't install at once; gives the lock's file descriptor.

    By hand rather than with tuning.host.locks: only the standard library is there yet, and pip inherits this lock.
    """
    lock = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Another process is installing; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _make_venv() -> None:
    if _venv_works():
        return
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        version = "{}.{}".format(*sys.version_info)
        _give_up(
            f"This Python has no venv module with pip. On Debian and Ubuntu: apt-get install python{version}-venv",
        )
    _say(f"Creating {VENV} with Python {sys.version.split()[0]}.")
    import venv

    try:
        venv.create(VENV, clear=True, symlinks=True, with_pip=True)
    except OSError as error:
        _give_up(
            f"{VENV} can't be created: {error.strerror or error}. The folder must be writable, and the disk not full"
        )
    except subprocess.CalledProcessError as error:
        _give_up(
            f"{VENV} can't be created: {_last_line(error.output)}. The folder must be writable, and the disk not full"
        )


def _venv_works() -> bool:
    try:
        return subprocess.run([PYTHON, "-c", "import pip"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _install(wanted: Sequence[str], lock: int) -> None:
    _say(f"Installing the packages of {' and '.join(wanted)} into {VENV}: only once, about 2 GB, a few minutes.")
    log = VENV / "install.log"
    try:
        log.unlink(missing_ok=True)
        if _pip(wanted, log, lock) != 0:
            _give_up(_cause(log))
        for stamped in {RUN, tuple(wanted)}:
            _stamp(stamped).write_text(_digest(stamped))
    except OSError as error:
        _give_up(
            f"{error.filename or VENV}: {error.strerror or error}. The folder must be writable, and the disk not full"
        )
    except KeyboardInterrupt:
        _give_up("Interrupted", status=130)
    _say("Installed.")


def _pip(wanted: Sequence[str], log: Path, lock: int) -> int:
    """Run pip, show what it downloads, and return its exit status. It keeps the lock if this process is killed."""
    # Wheels only: building a package would run code that belongs to nobody's review.
    checks = ["--require-hashes", "--only-binary", ":all:"]
    options = ["--disable-pip-version-check", "--no-input", "--log", str(log), *checks]
    command = [str(PYTHON), "-m", "pip", "install", *options, "-r", str(ROOT / _lock_file(wanted))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=(lock,)) as pip:
        assert pip.stdout
        for line in pip.stdout:
            if found := re.search(r"Downloading (?:\S+/)?([^\s/-]+)-([^\s-]+)\S* (\(.*\))", line):
                _say("Downloading {} {} {}".format(*found.groups()))
            elif line.startswith("Installing"):
                _say("Unpacking the packages.")
    return pip.returncode


def _cause(log: Path) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    for pattern, advice in CAUSES:
        if found := re.search(pattern, text):
            return found.expand(advice)
    if shutil.disk_usage(ROOT).free < 2**20:
        return CAUSES[0][1]
    return f"pip could not install what is pinned; {log} says why"


def _last_line(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace").strip().rpartition("\n")[2]


def _say(text: str) -> None:
    print(f"tuneboard: {text}", file=sys.stderr, flush=True)  # noqa: T201 - Django isn't loaded yet


def _give_up(reason: str, status: int = 1) -> NoReturn:
    _say(f"{reason}; then run the command again, it continues from there.")
    sys.exit(status)
