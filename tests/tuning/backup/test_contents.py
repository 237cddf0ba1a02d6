"""Which files a backup has: those of the rows in its snapshot, and of record files the lines of the trials in it."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.replacing import WAYS, assert_untouched, canary_in, kernel, replace
from tests.world import make_compilation, make_network, make_run, publish
from tuning.backup import contents, making
from tuning.backup.contents import ALLOWED, plan, record_sizes
from tuning.backup.manifest import Manifest
from tuning.beneath import NotRegular
from tuning.logs.meta_schedule import RECORDS
from tuning.models import Run

__all__ = ("kernel",)
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def var(tmp_path: Path, settings: object) -> Path:
    settings.VAR = tmp_path  # type: ignore[attr-defined]
    return tmp_path


def run_with(lines: int, *, trials: int) -> Run:
    run = make_run(trials_done=trials)
    run.work_dir.mkdir(parents=True)
    (run.work_dir / RECORDS).write_text("".join(f"line {number}\n" for number in range(1, lines + 1)))
    return run


def planned(sizes: dict[str, int] | None = None) -> dict[str, bytes]:
    """The content of each file of the plan, by name."""
    found = {}
    for item in plan("default", record_sizes() if sizes is None else sizes).items:
        with item.open() as file:
            found[item.name] = file.read(item.size)
    return found


def records(run: Run, sizes: dict[str, int]) -> list[str]:
    return planned(sizes)[f"runs/{run.work_dir.name}/{RECORDS}"].decode().splitlines()


def test_trials_measured_after_the_snapshot_are_left_out() -> None:
    run = run_with(2, trials=3)
    before = record_sizes()
    with (run.work_dir / RECORDS).open("a") as file:
        file.write("line 3\nline 4\nline 5\nli")
    assert records(run, before) == ["line 1", "line 2", "line 3"]


def test_a_run_that_began_after_the_files_were_listed_has_the_records_of_its_trials() -> None:
    assert records(run_with(3, trials=2), {}) == ["line 1", "line 2"]


def test_records_ahead_of_the_database_before_the_snapshot_are_kept() -> None:
    run = run_with(5, trials=3)
    assert len(records(run, record_sizes())) == 5
    before = record_sizes()
    with (run.work_dir / RECORDS).open("a") as file:
        file.write("line 6\n")
    assert len(records(run, before)) == 5


def test_half_a_line_that_was_there_before_isnt_finished_by_what_came_after() -> None:
    run = run_with(3, trials=2)
    before = {name: size - 2 for name, size in record_sizes().items()}
    assert records(run, before) == ["line 1", "line 2"]


def test_a_record_file_with_fewer_lines_than_trials_is_kept_whole() -> None:
    assert len(records(run_with(2, trials=9), {})) == 2


def test_a_link_that_an_engine_left_in_its_folder_isnt_followed(var: Path) -> None:
    secret = var / "elsewhere"
    secret.write_text("secret")
    run = run_with(1, trials=1)
    (run.work_dir / "console.log").symlink_to(secret)
    (run.work_dir / "folder").symlink_to(var)
    os.mkfifo(run.work_dir / "fifo")
    assert list(planned()) == [f"runs/{run.work_dir.name}/{RECORDS}"]
    (run.work_dir / RECORDS).unlink()
    (run.work_dir / RECORDS).symlink_to(secret)
    assert planned() == {}


def test_a_file_that_becomes_a_link_after_it_was_listed_is_refused(var: Path) -> None:
    run = run_with(1, trials=1)
    listed = plan("default", record_sizes())
    (run.work_dir / RECORDS).unlink()
    (run.work_dir / RECORDS).symlink_to(var / "secret_key")
    with pytest.raises(NotRegular, match="can't be read: it isn't a regular file"):
        listed.items[0].open()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("how", WAYS)
def test_what_an_engine_has_replaced_is_left_out_and_named(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, how: str
) -> None:
    """Before the files are listed, and after: an engine can't keep a site from its backups either."""
    canary = canary_in(tmp_path_factory.mktemp("outside"))
    run = run_with(1, trials=1)
    name = f"runs/{run.work_dir.name}/{RECORDS}"
    listed = plan("default", record_sizes())
    replace(run.work_dir / RECORDS, how, canary)
    writing = Manifest("0", "sqlite", datetime.now(timezone.utc), [], 1, 1, 1, 7)
    assert making._write(tmp_path / "archive", writing, listed.items, lambda _: None) == [name]
    made = plan("default", record_sizes())
    assert [item.name for item in made.items] == []
    assert_untouched(canary)


def test_output_is_in_it_wherever_the_version_that_wrote_it_has_put_it() -> None:
    run = run_with(1, trials=1)
    run.console_log.write_text("now")
    run.console_log_before.write_text("before")
    names = {f"runs/{run.work_dir.name}.log": b"now", f"runs/{run.work_dir.name}/console.log": b"before"}
    assert {name: data for name, data in planned().items() if name in names} == names
    assert all(ALLOWED.fullmatch(name) for name in names)


def test_models_and_published_libraries_are_in_it_and_unfinished_ones_arent() -> None:
    network = make_network()
    network.file.parent.mkdir()
    network.file.write_bytes(b"model")
    (network.file.parent / "incoming-1").write_bytes(b"half a model")
    run = make_run()
    done, building = make_compilation(run), make_compilation(run, sha256=None)
    for compilation in (done, building):
        publish(compilation)
        compilation.unpublished.mkdir()
        (compilation.unpublished / "library.so").write_bytes(b"half")
    folder = f"compilations/{done.folder.name}"
    assert set(planned()) == {
        f"networks/{'0' * 64}.onnx",
        *(f"{folder}/{name}" for name in ("console.log", "artifact/library.so", "artifact/untuned.so")),
        f"{folder}/artifact/manifest.json",
        f"compilations/{building.folder.name}/console.log",
    }


def test_files_of_no_row_and_what_can_be_made_anew_are_left_out(var: Path) -> None:
    for name in ("logs", "static", "shown", "backups", "replaced-1", "runs/1-20200101T000000.000000"):
        (var / name).mkdir(parents=True)
        (var / name / "file").write_text("x")
    (var / "up.lock").write_text("{}")
    (var / contents.SECRET).write_text("key")
    assert set(planned()) == {contents.SECRET}


def test_it_tells_of_files_that_should_be_there() -> None:
    make_network()
    compilation = make_compilation()
    missing = plan("default", {}).missing
    assert missing == [f"networks/{'0' * 64}.onnx", f"compilations/{compilation.folder.name}/artifact/library.so"]


@pytest.mark.parametrize(
    "name",
    [
        "../database",
        "/etc/passwd",
        "database/..",
        "runs/../secret_key",
        "runs/1-20200101T000000.000000/../../x",
        "runs/1-20200101T000000.000000/..",
        "runs/1-20200101T000000.000000/.hidden",
        "runs/1-20200101T000000.000000/a/b",
        "runs/1-20200101T000000.000000/a\n",
        "runs/1-20200101T000000.000000\\x",
        "runs/１-20200101T000000.000000/a",
        "networks/short.onnx",
        f"networks/{'0' * 64}.so",
        "compilations/1-20200101T000000.000000/building/library.so",
        "up.lock",
        "static/app.js",
        "database ",
        "",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    assert not ALLOWED.fullmatch(name)
