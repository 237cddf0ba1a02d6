"""Collects the static files when they have changed: to name and compress them takes seconds of each start."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

from . import storage

MARK = "collected.sha256"


def collect() -> None:
    """Leave in STATIC_ROOT what pages load, unless it is there."""
    mark = Path(settings.STATIC_ROOT, MARK)
    if mark.exists() and mark.read_text() == _digest():
        return
    mark.unlink(missing_ok=True)  # It must not outlive what it stands for if this is interrupted.
    call_command("collectstatic", interactive=False, verbosity=0)
    mark.write_text(_digest())


def _digest() -> str:
    """Of everything that decides what is collected, and of the list of what was."""
    digest = hashlib.sha256()
    for part in _parts():
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _parts() -> Iterator[bytes]:
    yield from (version(package).encode() for package in ("django", "whitenoise"))
    yield Path(storage.__file__).read_bytes()
    for finder in get_finders():
        for name, files in finder.list([]):
            yield name.encode()
            yield Path(files.path(name)).read_bytes()
    manifest = Path(settings.STATIC_ROOT, "staticfiles.json")
    yield manifest.read_bytes() if manifest.exists() else b""
