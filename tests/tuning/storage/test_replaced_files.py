"""An engine or a compiler may replace a file of its folder by anything: no store follows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.replacing import CANARY, LINKS, WAYS, assert_untouched, canary_in, kernel, replace
from tests.storage_fixtures import use
from tests.tuning.storage.test_objects import PLACE, bucket, server
from tests.world import make_run
from tuning.beneath import NotRegular
from tuning.models import Chunk, Run, StoredFile
from tuning.storage import Store, chunks, moving, store
from tuning.storage.local import LocalStore
from tuning.work import copies

__all__ = ("bucket", "kernel", "server")
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("kernel")]
Make = Callable[[str], Path]


@pytest.fixture(params=[None, "", PLACE], ids=["folder", "database", "objects"])
def place(request: pytest.FixtureRequest, settings: Any, tmp_path: Path) -> Store:
    settings.VAR = tmp_path / "var"
    settings.VAR.mkdir()
    if request.param == PLACE:
        request.getfixturevalue("bucket")
    return use(settings, request.param)


@pytest.fixture
def run(place: Store) -> Run:
    run = make_run(status="stopped")
    run.work_dir.mkdir(parents=True)
    run.record_file.write_bytes(b"line 1\n")
    return run


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return canary_in(tmp_path)


def stored() -> bytes:
    """All that is in tables and objects."""
    return b"".join(map(chunks.piece_of, Chunk.objects.all()))


@pytest.mark.parametrize("how", WAYS)
def test_it_neither_reads_nor_measures(run: Run, place: Store, canary: Path, how: str) -> None:
    replace(run.record_file, how, canary)
    for read in (place.opened, place.length):
        with pytest.raises(NotRegular, match=f"^{run.record_file.name} can't be read: it isn't a regular file"):
            read(run.record_file)


@pytest.mark.parametrize("how", WAYS)
def test_it_neither_appends_nor_truncates_nor_dates(run: Run, settings: Any, canary: Path, how: str) -> None:
    local = LocalStore()
    replace(run.record_file, how, canary)
    for write in (
        lambda: local.append(run.record_file, 0, b"x"),
        lambda: local.written(run.record_file),
        lambda: local.get_modified_time(str(run.record_file)),
    ):
        with pytest.raises(NotRegular):
            write()
    assert_untouched(canary)


@pytest.mark.parametrize("how", WAYS)
def test_it_stores_nothing_of_it(run: Run, place: Store, canary: Path, how: str) -> None:
    replace(run.record_file, how, canary)
    if place.is_shared:
        with pytest.raises(NotRegular):
            place.prepare(run.record_file).add(run.record_file)
        for store_it in (copies.Growing(run.record_file).add, copies.Growing(run.record_file).add_lines):
            with pytest.raises(NotRegular):
                store_it()
        list(moving.move())
    assert stored() == b""
    assert_untouched(canary)


@pytest.mark.parametrize("how", [way for way in WAYS if way not in ("folder", "link to the folder")])
def test_what_is_stored_takes_the_place_of_what_isnt_a_file(run: Run, place: Store, canary: Path, how: str) -> None:
    """Also on the machine of another member, whose engine left it."""
    if not place.is_shared:
        return
    place.append(run.record_file, 0, b"line 1\n")
    for bring in (place.fetch, place.restore):
        replace(run.record_file, how, canary)
        bring(run.record_file)
        assert (run.record_file.is_symlink(), run.record_file.read_bytes()) == (False, b"line 1\n")
        assert_untouched(canary)


@pytest.mark.parametrize("how", WAYS)
def test_a_run_that_another_machine_goes_on_with_ends_well(run: Run, place: Store, canary: Path, how: str) -> None:
    """Nothing of the folder is taken for what is stored, and nothing outside of it is removed."""
    if not place.is_shared:
        return
    replace(run.record_file, how, canary)
    copies.release_left()
    copies.release(run)
    assert_untouched(canary)


@pytest.mark.parametrize("how", LINKS)
def test_output_of_an_earlier_version_is_moved_and_nothing_else(run: Run, place: Store, canary: Path, how: str) -> None:
    run.console_log_before.write_bytes(b"printed before\n")
    copies.rescue_console(run)
    copies.rescue_console(run)
    with store().opened(run.console_log) as output:
        assert output.read() == b"printed before\n"
    assert not run.console_log_before.exists()
    place.remove(run.console_log)
    replace(run.console_log_before, how, canary)
    if how == "link to the folder":
        run.work_dir.unlink()
        return
    copies.rescue_console(run)
    assert place.length(run.console_log) is None
    assert not run.console_log_before.is_symlink()
    assert_untouched(canary)


def test_a_rescue_that_was_interrupted_goes_on(run: Run, place: Store) -> None:
    run.console_log_before.write_bytes(b"printed before\n")
    place.append(run.console_log, 0, b"printed")
    copies.rescue_console(run)
    with place.opened(run.console_log) as output:
        assert output.read() == b"printed before\n"


@pytest.mark.parametrize(
    "name", ["/{outside}", "../outside", "runs/../../outside", "runs/1-20260101T000000.000000/../../../outside"]
)
def test_a_name_that_another_machine_wrote_leads_nowhere_else(
    place: Store, settings: Any, tmp_path: Path, name: str
) -> None:
    """Every machine of the site writes to the table of files; none of them writes to another's disk."""
    outside = tmp_path / "outside"
    pk = name.format(outside=str(outside).lstrip("/"))
    file = StoredFile.objects.create(pk=pk, size=6, changed_at=timezone.now())
    chunk = chunks.packed(0, CANARY[:6])
    chunk.file = file
    chunk.save()
    use(settings, None)
    with pytest.raises(OSError, match="isn't the name of a stored file"):
        list(moving.move())
    assert not outside.exists()
