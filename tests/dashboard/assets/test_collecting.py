"""Static files are collected once, and again after anything changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from dashboard.assets import collecting
from dashboard.assets.collecting import collect


@pytest.fixture
def source(settings: Any, tmp_path: Path) -> Path:
    """The site's only static file."""
    path = tmp_path / "source" / "page.css"
    path.parent.mkdir()
    path.write_text("a {}")
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATICFILES_DIRS = [path.parent]
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": "dashboard.assets.storage.HashedModules"}}
    return path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often it really collects."""
    made: list[str] = []

    def call(name: str, **options: Any) -> None:
        made.append(name)
        call_command(name, **options)

    monkeypatch.setattr(collecting, "call_command", call)
    return made


def served(root: Path) -> str:
    """What pages get for the file."""
    name: str = json.loads((root / "staticfiles.json").read_text())["paths"]["page.css"]
    return Path(root, name).read_text()


def test_what_is_there_is_not_collected_again(source: Path, calls: list[str], settings: Any) -> None:
    collect()
    assert served(settings.STATIC_ROOT) == "a {}"
    collect()
    assert calls == ["collectstatic"]


def test_a_changed_file_is_collected(source: Path, settings: Any) -> None:
    collect()
    source.write_text("b {}")
    collect()
    assert served(settings.STATIC_ROOT) == "b {}"


def test_a_folder_that_was_emptied_is_filled(source: Path, settings: Any) -> None:
    collect()
    for path in settings.STATIC_ROOT.iterdir():
        path.unlink()
    collect()
    assert served(settings.STATIC_ROOT) == "a {}"


def test_it_starts_over_after_an_interruption(
    source: Path, settings: Any, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    collect()
    source.write_text("b {}")
    with monkeypatch.context() as patch:
        patch.setattr(collecting, "call_command", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collect()
    source.write_text("a {}")
    collect()
    assert calls == ["collectstatic"] * 2


def test_files_of_another_version_that_were_collected_since_are_replaced(source: Path, settings: Any) -> None:
    collect()
    source.write_text("b {}")
    call_command("collectstatic", interactive=False, verbosity=0)
    source.write_text("a {}")
    collect()
    assert served(settings.STATIC_ROOT) == "a {}"
