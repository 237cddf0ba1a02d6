"""What code that got into an engine may leave in the place of a file, for the site to open."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tuning import beneath

CANARY = b"[0,canary]\n"
WAYS = ("link", "dangling link", "second name", "pipe", "folder", "link to the folder")
LINKS = ("link", "second name", "link to the folder")
"""Those that lead to the canary."""
UNKNOWN_CALL = 100_000
"""The kernel answers to it as an old one does to `openat2`."""


def canary_in(folder: Path) -> Path:
    """A file that nobody may read or change."""
    path = folder / "canary"
    path.write_bytes(CANARY)
    return path


def replace(path: Path, how: str, canary: Path) -> None:
    """Put something that leads to the canary, or that isn't a file, in the place of this file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if how == "link":
        path.symlink_to(canary)
    elif how == "dangling link":
        path.symlink_to(canary.with_name("made-by-the-site"))
    elif how == "second name":
        os.link(canary, path)
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    else:
        _link_folder(path, canary)


def _link_folder(path: Path, canary: Path) -> None:
    """The canary has the file's name, in a folder to which a link leads in place of the file's."""
    elsewhere = canary.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    shutil.copyfile(canary, elsewhere / path.name)
    for each in path.parent.iterdir():
        shutil.move(each, elsewhere / each.name)
    path.parent.rmdir()
    path.parent.symlink_to(elsewhere)


def assert_untouched(canary: Path) -> None:
    """Neither the canary nor what was beside it was changed, and nothing was made there."""
    assert canary.read_bytes() == CANARY
    assert not canary.with_name("made-by-the-site").exists()
    if (elsewhere := canary.parent / "elsewhere").exists():
        assert CANARY in {path.read_bytes() for path in elsewhere.iterdir() if path.is_file()}


@pytest.fixture(params=["openat2", "older kernel"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have files opened by `openat2`, and folder by folder."""
    if request.param == "older kernel":
        monkeypatch.setattr(beneath, "OPENAT2", UNKNOWN_CALL)
    return str(request.param)
