"""Fixtures for files that several machines share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuning.storage import Store, store

On = Callable[[str], Path]


def use(settings: Any, place: str | None) -> Store:
    """Have the site keep its files in an object store, in the database (""), or in TUNEBOARD_VAR (None)."""
    backend = {"BACKEND": "tuning.storage.local.LocalStore"}
    if place is not None:
        backend = {"BACKEND": "tuning.storage.shared.SharedStore", "OPTIONS": {"place": place}}  # type: ignore[dict-item]
    settings.STORAGES = settings.STORAGES | {"store": backend}
    settings.STORAGE = {None: "files", "": "database"}.get(place, place)
    return store()


@pytest.fixture
def shared(settings: Any, tmp_path: Path) -> Store:
    """Files are in the database. The first machine is called `here`."""
    on(settings, tmp_path, "here")
    return use(settings, "")


@pytest.fixture
def machine(settings: Any, tmp_path: Path) -> On:
    """Go on as another machine of the site: one with another TUNEBOARD_VAR."""
    return lambda name: on(settings, tmp_path, name)


def on(settings: Any, tmp_path: Path, name: str) -> Path:
    settings.VAR = settings.FILE_UPLOAD_TEMP_DIR = tmp_path / name
    settings.VAR.mkdir(exist_ok=True)
    return tmp_path / name
