"""Code in an engine or a compiler replaces files of its folder: the site neither follows nor publishes that."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.compile_fixtures import Compiler
from tests.engine_fixtures import Play
from tests.replacing import CANARY, LINKS, WAYS, assert_untouched, canary_in, kernel, replace
from tests.storage_fixtures import use
from tests.tuning.work.test_compiling import carried_out, fresh
from tests.tuning.work.test_supervisor import tune
from tests.world import extracted, make_run, make_user, measured_run, record_line, trial
from tuning.actions import compilations
from tuning.actions.runs import extend
from tuning.engines.wire.compiling import LIBRARY, MANIFEST, UNTUNED
from tuning.engines.wire.protocol import VERSION, Finished, Hello
from tuning.models import Compilation, Run
from tuning.queue import jobs
from tuning.reads.console import console
from tuning.storage.local import open_here
from tuning.work.warm_start import bring_continued

__all__ = ("kernel",)
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("kernel")]
HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return canary_in(tmp_path)


@pytest.fixture
def viewer() -> Client:
    client = Client()
    client.force_login(make_user("viewer"))
    return client


def replacing(name: str, how: str, canary: Path) -> dict[str, str]:
    return {"do": "replace", "name": name, "how": how, "canary": str(canary)}


def measured(latency_s: float) -> tuple[Any, Any]:
    return {"do": "record", "text": f"[0,{record_line(latency_s)}]"}, trial(0, latency_s)


@pytest.mark.parametrize("how", ["link", "dangling link", "second name", "pipe"])
@pytest.mark.parametrize("place", ["folder", "log"])
def test_an_extended_run_prints_to_its_own_console(
    play: Play, viewer: Client, canary: Path, how: str, place: str
) -> None:
    """Neither in the folder, where the output was until now, nor beside it is anything of the engine's followed."""
    name = {"folder": "console.log", "log": "../{}.log"}[place]
    run = make_run(trials_budget=1)
    step = replacing(name.format(run.work_dir.name), how, canary)
    play(HELLO, extracted(1), {"do": "print", "text": "first"}, step, *measured(1e-3), Finished("budget"))
    tune(run)
    extend(run, {"trials": 1})
    play(HELLO, extracted(1), {"do": "print", "text": "again"}, *measured(1e-3), *measured(2e-3), Finished("budget"))
    run = tune(Run.objects.get(pk=run.pk))
    assert_untouched(canary)
    answer = viewer.get(f"/api/v1/runs/{run.pk}/console.log")
    if place == "folder":
        assert (run.status, console(run)["text"]) == ("finished", "first\nagain\n")
        assert answer.getvalue() == b"first\nagain\n"
    else:
        assert (run.status, run.error) == ("failed", f"{run.console_log.name} can't be read: it isn't a regular file.")
        assert answer.status_code == 409
        assert viewer.get(f"/runs/{run.pk}/").status_code == 200


@pytest.mark.parametrize("how", WAYS)
def test_a_run_whose_records_are_replaced_shows_why_they_cant_be_downloaded(
    play: Play, viewer: Client, canary: Path, how: str
) -> None:
    run = make_run(trials_budget=1)
    (run.work_dir).mkdir(parents=True)
    (run.work_dir / "database_workload.json").write_text('["1","module"]\n')
    step = replacing(run.record_file.name, how, canary)
    play(HELLO, extracted(1), *measured(1e-3), step, Finished("budget"))
    run = tune(run)
    for query in ("which=all", "which=all&format=jsonl"):
        answer = viewer.get(f"/api/v1/runs/{run.pk}/records?{query}")
        assert answer.status_code == 409
        assert "can't be read: it isn't a regular file" in answer.json()["error"]["message"]
    assert viewer.get(f"/runs/{run.pk}/").status_code == 200
    assert_untouched(canary)


@pytest.mark.parametrize("how", LINKS)
def test_records_that_are_replaced_while_they_are_stored_fail_the_run(
    play: Play, canary: Path, settings: Any, tmp_path: Path, how: str
) -> None:
    settings.VAR = tmp_path / "var"
    settings.VAR.mkdir()
    shared = use(settings, "")
    run = make_run(trials_budget=2)
    step = replacing(run.record_file.name, how, canary)
    play(HELLO, extracted(1), step, trial(0, 1e-3), trial(0, 2e-3), Finished("budget"))
    run = tune(run)
    assert (run.status, str(run.error).partition(" ")[2]) == ("failed", "can't be read: it isn't a regular file.")
    assert not shared.stored(run.record_file)
    assert_untouched(canary)


@pytest.mark.parametrize("how", LINKS)
def test_a_run_brings_the_records_of_another_without_writing_elsewhere(canary: Path, how: str) -> None:
    source = measured_run()
    source.work_dir.mkdir(parents=True)
    for name in ("database_workload.json", source.record_file.name):
        (source.work_dir / name).write_text("line\n")
    run = make_run(continues=source)
    run.work_dir.mkdir(parents=True)
    if how == "link to the folder":
        (run.work_dir / "continued").symlink_to(canary.parent)
    else:
        for name in ("continued", "continued-half"):
            replace(run.work_dir / name, how, canary)
    assert bring_continued(run) == source.pk
    brought = run.work_dir / "continued"
    assert not brought.is_symlink()
    assert (brought / source.record_file.name).read_text() == "line\n"
    assert_untouched(canary)
    replace(source.record_file, how, canary)
    with pytest.raises(OSError, match="can't be read: it isn't a regular file"):
        bring_continued(make_run(continues=source))


@pytest.fixture
def queued(compiler: Compiler, monkeypatch: pytest.MonkeyPatch, canary: Path) -> Compilation:
    compiler("replace")
    for name, value in {"NAME": "more.txt", "HOW": "link", "CANARY": str(canary)}.items():
        monkeypatch.setenv(f"TVM_FAKE_{name}", value)
    run = measured_run()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return compilations.compile_run(run, {}, None)


@pytest.mark.parametrize("how", ["link", "dangling link", "second name", "pipe", "folder"])
@pytest.mark.parametrize("name", [LIBRARY, MANIFEST, UNTUNED])
def test_a_library_with_a_file_that_isnt_one_isnt_published(
    queued: Compilation, monkeypatch: pytest.MonkeyPatch, canary: Path, name: str, how: str
) -> None:
    viewer = Client()
    viewer.force_login(make_user("viewer"))
    monkeypatch.setenv("TVM_FAKE_NAME", name)
    monkeypatch.setenv("TVM_FAKE_HOW", how)
    assert carried_out(queued) == "failed"
    assert f"{name} can't be read: it isn't a regular file." in str(fresh(queued).error)
    for part in ("manifest", "artifact", "bundle"):
        assert viewer.get(f"/api/v1/compilations/{queued.pk}/{part}").status_code == 409
    assert viewer.get(f"/compilations/{queued.pk}/").status_code == 200
    assert [path.name for path in queued.folder.iterdir()] == ["console.log"]
    assert_untouched(canary)


def test_only_known_files_are_published_as_copies_with_digests_of_our_own(
    queued: Compilation,
) -> None:
    assert carried_out(queued) == "queued"
    built = fresh(queued)
    assert {path.name for path in built.artifact.iterdir()} == {LIBRARY, MANIFEST, UNTUNED}
    assert not built.unpublished.exists()
    assert not built.ready.exists()
    assert (built.size, built.sha256) == (5, hashlib.sha256(b"whole").hexdigest())


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name", [LIBRARY, MANIFEST])
def test_what_an_earlier_version_has_published_isnt_followed_either(
    compiler: Compiler, viewer: Client, canary: Path, name: str, how: str
) -> None:
    run = measured_run()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    built = compilations.compile_run(run, {}, None)
    assert carried_out(built) == "queued"
    replace(built.artifact / name, how, canary)
    part = {LIBRARY: "artifact", MANIFEST: "manifest"}[name]
    for path in (part, "bundle"):
        answer = viewer.get(f"/api/v1/compilations/{built.pk}/{path}")
        assert answer.status_code == 409, path
        assert "can't be read: it isn't a regular file." in answer.json()["error"]["message"]
        assert CANARY not in answer.content
    assert viewer.get(f"/compilations/{built.pk}/").status_code == 200
    assert_untouched(canary)


@pytest.mark.parametrize("how", WAYS)
def test_the_console_of_an_earlier_version_is_shown_but_no_link(viewer: Client, canary: Path, how: str) -> None:
    run = measured_run()
    run.work_dir.mkdir(parents=True)
    run.console_log_before.write_text("printed before\n")
    pages = (f"/runs/{run.pk}/", f"/runs/{run.pk}/console/", f"/api/v1/runs/{run.pk}/console")
    for path in (*pages, f"/api/v1/runs/{run.pk}/console.log"):
        assert b"printed before" in viewer.get(path).getvalue()
    replace(run.console_log_before, how, canary)
    for path in pages:
        answer = viewer.get(path)
        assert answer.status_code == 200
        assert b"can&#x27;t be read" in answer.content or b"can't be read" in answer.content
        assert CANARY.strip() not in answer.content
    assert viewer.get(f"/api/v1/runs/{run.pk}/console.log").status_code == 409
    assert_untouched(canary)


REACHING = """
import os, sys
from pathlib import Path
from tuning.engines.confinement import confine_in
from tuning.engines.wire.question import Reach
scratch, work_dir, log = sys.argv[1:]
confine_in(scratch, Reach(writes=(work_dir,)))
attempts = {
    "open its console again": lambda: os.open("/proc/self/fd/1", os.O_RDWR),
    "truncate it by its path": lambda: os.open(log, os.O_WRONLY | os.O_TRUNC),
    "replace it": lambda: os.rename(Path(work_dir, "mine"), log),
    "remove it": lambda: os.unlink(log),
    "put a link beside it": lambda: os.symlink("/etc/passwd", log + ".link"),
    "put its folder elsewhere": lambda: os.rename(work_dir, work_dir + ".old"),
    "write to its folder": lambda: Path(work_dir, "more").write_text("x"),
}
Path(work_dir, "mine").write_text("x")
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        continue
    print(name, file=sys.stderr)
print("printed", flush=True)
"""


def test_an_engine_reaches_its_console_only_by_what_it_inherits(tmp_path: Path) -> None:
    """In the folder of the logs it can neither change nor make anything."""
    run = make_run()
    run.work_dir.mkdir(parents=True)
    with open_here(run.console_log, "ab") as console:
        command = [sys.executable, "-c", REACHING, str(tmp_path), str(run.work_dir), str(run.console_log)]
        done = subprocess.run(command, stdout=console, stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr.splitlines() == ["write to its folder"]
    assert run.console_log.read_text() == "printed\n"
