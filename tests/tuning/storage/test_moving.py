"""`move_files` puts every file where the setting says, and can be interrupted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.storage_fixtures import use
from tests.world import claimed, make_compilation, make_network, make_run, measured_run, publish
from tuning.models import AuditEntry, Chunk, LooseObject, StoredFile
from tuning.storage import checking, moving
from tuning.storage.shared import SharedStore

pytestmark = pytest.mark.django_db(transaction=True)
Tree = dict[str, bytes]


@pytest.fixture
def tree(settings: Any, tmp_path: Path) -> Tree:
    """The files of a site that keeps them in TUNEBOARD_VAR."""
    settings.VAR = tmp_path
    use(settings, None)
    run = measured_run()
    run.move("running", to="finished")
    run.work_dir.mkdir(parents=True)
    run.record_file.write_bytes(b"line 1\nline 2\n")
    run.console_log.write_bytes(b"It printed this")
    publish(make_compilation(run))
    network = make_network(sha256="a" * 64)
    network.file.parent.mkdir()
    network.file.write_bytes(b"a model" * 1000)
    return local(tmp_path)


def local(var: Path) -> Tree:
    paths = (path for folder in moving.FOLDERS for path in (var / folder).rglob("*") if path.is_file())
    return {path.relative_to(var).as_posix(): path.read_bytes() for path in paths}


def shared_tree(settings: Any) -> Tree:
    found = {}
    for name in StoredFile.objects.values_list("pk", flat=True):
        with SharedStore().opened(settings.VAR / name) as file:
            found[name] = file.read()
    return found


def moved() -> str:
    out = io.StringIO()
    call_command("move_files", stdout=out)
    return out.getvalue()


def test_it_moves_all_files_to_the_database_and_back(tree: Tree, settings: Any) -> None:
    assert len(tree) == 7
    use(settings, "")
    assert "7 files aren't where TUNEBOARD_STORAGE says" in str(checking.advice())
    assert "Moved 7 files (0.0 MiB) to the database." in moved()
    assert (local(settings.VAR), shared_tree(settings)) == ({}, tree)
    assert checking.advice() is None
    assert AuditEntry.objects.latest("pk").action == "site.move_files"
    use(settings, None)
    assert "7 files" in str(checking.advice())
    moved()
    assert (local(settings.VAR), shared_tree(settings)) == (tree, {})
    assert (Chunk.objects.count(), LooseObject.objects.count(), checking.advice()) == (0, 0, None)
    assert moved() == f"Moved 0 files (0.0 MiB) to {settings.VAR}.\n"


@pytest.mark.parametrize("to", ["", None], ids=["database", "files"])
def test_it_goes_on_after_an_interruption(tree: Tree, settings: Any, to: str | None) -> None:
    use(settings, "")
    if to is None:
        moved()
        use(settings, None)
    steps = moving.move()
    for _ in range(3):
        next(steps)
    del steps
    both = {**local(settings.VAR), **shared_tree(settings)}
    assert both == tree, "nothing is lost in between"
    moved()
    assert (local(settings.VAR) if to is None else shared_tree(settings)) == tree


def test_half_a_line_isnt_taken_along(tree: Tree, settings: Any) -> None:
    (record_file,) = (settings.VAR / name for name in tree if name.endswith("record.json"))
    with record_file.open("ab") as file:
        file.write(b"half a li")
    use(settings, "")
    moved()
    assert shared_tree(settings) == tree


def test_a_file_that_cant_be_read_stays_where_it_is(tree: Tree, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    use(settings, "")
    monkeypatch.setattr(moving, "is_prefix", lambda *_: False)
    with pytest.raises(CommandError, match="wasn't copied as it is"):
        moved()
    assert local(settings.VAR) == tree


def test_what_isnt_a_rows_stays(tree: Tree, settings: Any) -> None:
    stray = settings.VAR / "networks" / "incoming-1234"
    stray.write_bytes(b"half a model")
    use(settings, "")
    moved()
    assert stray.exists()
    assert len(shared_tree(settings)) == 7


def test_it_refuses_while_somebody_writes(tree: Tree, settings: Any) -> None:
    use(settings, "")
    run = claimed(make_run())
    with pytest.raises(CommandError, match=f"run {run.pk} is going on. Stop the site on all its machines first."):
        moved()
