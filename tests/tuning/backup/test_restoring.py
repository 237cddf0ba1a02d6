"""`backup` and `restore` on whole sites: all is back, what was there is put aside, and a refusal changes nothing.

Refusals that come before any database is looked at are tested on SQLite only.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import sqlite3
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from tests.live import LiveSite
from tests.sites import SiteMaker
from tuning.backup import archive
from tuning.backup.archive import Writer

SMALL = {"network": "matmul", "network_options": {"n": 64}, "trials_per_batch": 4, "strategy": "replay-trace"}
AGE = """
from datetime import timedelta
from django.db.models import F
from tuning.models import Machine, Run
Run.objects.update(heartbeat_at=F("heartbeat_at") - timedelta(minutes=1))
Machine.objects.update(heartbeat_at=F("heartbeat_at") - timedelta(minutes=1))
"""
FILL = """
from django.contrib.auth.models import User
from dashboard.people.sessions import SessionStore
from django.utils import timezone
from tests.world import make_compilation, make_machine, make_network, measured_run, publish
network = make_network()
network.file.parent.mkdir()
network.file.write_bytes(b"a model")
run = measured_run()
run.move("running", to="finished")
machine = make_machine("gone", forgotten_at=timezone.now())
run.measured_by.add(machine)
run.trials.update(machine=machine)
run.work_dir.mkdir(parents=True, exist_ok=True)
(run.work_dir / "console.log").write_text("It printed this.")
publish(make_compilation(run))
SessionStore().create()
"""
READ = """
from tuning.models import Run
from tuning.storage import store
print(store().opened(Run.objects.get(pk={pk}).record_file).read().decode(), end="")
"""
COUNT = """
import json
from dashboard.models import Session
from tuning.models import Compilation, Network, Run, Trial
there = Trial.objects.filter(machine__name="gone"), Run.objects.filter(measured_by__name="gone")
rows = [*(kind.objects for kind in (Run, Trial, Network, Compilation)), *there, Session.objects]
print(json.dumps([each.count() for each in rows]))
"""


def run_code(site: LiveSite, code: str) -> str:
    return site.manage("shell", "-v", "0", "--no-imports", "-c", code)


def fill(site: LiveSite) -> LiveSite:
    site.manage("create_token", "ann")
    run_code(site, FILL)
    return site


def counts(site: LiveSite) -> list[int]:
    found: list[int] = json.loads(run_code(site, COUNT))
    return found


def files(site: LiveSite, *folders: str) -> dict[str, str]:
    """Name and digest of each file in these folders of TUNEBOARD_VAR."""
    paths = [path for folder in folders for path in (site.var / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(site.var)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def everything(site: LiveSite) -> tuple[dict[str, str], list[int]]:
    """All data, to see whether a command changed any. SQLite's own files may change without a change of the data."""
    found = {name: digest for name, digest in files(site, ".").items() if "sqlite3" not in name}
    return found, counts(site)


def destroy(site: LiveSite) -> None:
    site.close()
    shutil.rmtree(site.var)


@pytest.fixture(scope="module")
def filled(site_maker: SiteMaker) -> LiveSite:
    """A site with a run, a model and a library. It isn't running."""
    return fill(site_maker.prepared())


@pytest.fixture
def other(site_maker: SiteMaker, filled: LiveSite) -> Iterator[LiveSite]:
    """A site with the same data and another secret key, which a test may change."""
    site = site_maker.copied(filled)
    (site.var / "secret_key").write_text("another key" * 5)
    yield site
    site.close()


@pytest.fixture(scope="module")
def backup(filled: LiveSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backups") / "site.tar.zst"
    filled.manage("backup", str(path))
    return path


def repacked(backup: Path, to: Path, change: Callable[[dict[str, bytes]], Any]) -> Path:
    """The backup with other members, and correct checksums."""
    with archive.opened(backup) as file:
        members = {member.name: member.file.read() for member in archive.members(file)}
    change(members)
    with Writer(to) as writer:
        for name, content in members.items():
            writer.add(name, io.BytesIO(content), len(content), 0)
    return to


def with_manifest(**values: Any) -> Callable[[dict[str, bytes]], Any]:
    def change(members: dict[str, bytes]) -> None:
        known = msgspec.json.decode(members["manifest.json"])
        members["manifest.json"] = msgspec.json.encode(known | values)

    return change


@pytest.mark.both_databases
def test_everything_is_back_in_an_empty_folder(filled: LiveSite, backup: Path, empty_site: LiveSite) -> None:
    said = empty_site.manage("restore", str(backup))
    assert re.match(r"Restored: 1 run with \d+ trials and 7 files, as of 20", said)
    assert counts(empty_site) == [*counts(filled)[:-1], 0], "sessions don't come back to life"
    data = ("runs", "networks", "compilations", "secret_key")
    assert files(empty_site, *data) == files(filled, *data)
    assert (empty_site.var / "secret_key").read_text() == (filled.var / "secret_key").read_text()
    made_anew = {"empty", "valkey_password"}
    assert {path.name for path in empty_site.var.iterdir()} - made_anew == {
        path.name for path in filled.var.iterdir() if path.name in (*data, "tuneboard.sqlite3")
    }
    kept = [path for path in empty_site.var.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert kept == [], "other users of the machine can read these"


@pytest.mark.both_databases
def test_it_is_recorded(filled: LiveSite, tmp_path: Path, empty_site: LiveSite) -> None:
    path = tmp_path / "recorded.tar.zst"
    filled.manage("backup", str(path))
    assert entries(filled)[-1] == ["site.backup", "recorded.tar.zst", "command"]
    empty_site.manage("restore", str(path))
    assert entries(empty_site)[-1] == ["site.restore", "recorded.tar.zst", "command"]
    assert ["site.backup", "recorded.tar.zst", "command"] not in entries(empty_site), "it wasn't done yet"


def entries(site: LiveSite) -> list[list[str]]:
    code = "import json; from tuning.models import AuditEntry; print(json.dumps(list(AuditEntry.objects.order_by('pk').values_list('action', 'object_name', 'via'))))"
    found: list[list[str]] = json.loads(run_code(site, code))
    return found


@pytest.mark.both_databases
def test_the_file_is_secret_and_never_half_written(filled: LiveSite, tmp_path: Path) -> None:
    path = tmp_path / "site.tar.zst"
    said = json.loads(filled.manage("backup", str(path), "--json"))
    assert (said["size"], said["runs"], said["missing"]) == (path.stat().st_size, 1, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert "exists already" in filled.refusal("backup", str(path))
    path.write_text("an older backup")
    filled.manage("backup", str(path), "--force")
    assert filled.manage("restore", str(path), "--verify").startswith("Whole: 1 run")


def test_a_backup_that_fails_leaves_the_older_one_and_nothing_else(filled: LiveSite, tmp_path: Path) -> None:
    path = tmp_path / "site.tar.zst"
    path.write_text("an older backup")
    key = filled.var / "secret_key"
    moved = key.rename(filled.var / "key")
    key.symlink_to(moved)
    try:
        assert "secret_key: it isn't a regular file" in filled.refusal("backup", str(path), "--force")
    finally:
        moved.replace(key)
    assert path.read_text() == "an older backup"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_written_is_named_in_one_line(filled: LiveSite) -> None:
    said = filled.refusal("backup", "/nowhere/site.tar.zst")
    assert "No such file or directory" in said
    assert len(said.splitlines()) == 1


@pytest.mark.both_databases
def test_a_site_is_not_replaced_unasked(backup: Path, other: LiveSite) -> None:
    before = everything(other)
    said = other.refusal("restore", str(backup))
    assert said.startswith("CommandError: There is a site already: tables in the database")
    assert "--force" in said
    assert everything(other) == before


def test_files_alone_are_not_replaced_unasked_either(backup: Path, empty_site: LiveSite) -> None:
    (empty_site.var / "runs" / "1-20200101T000000.000000").mkdir(parents=True)
    assert "There is a site already" in empty_site.refusal("restore", str(backup))


@pytest.mark.both_databases
def test_what_is_replaced_is_put_aside(backup: Path, other: LiveSite) -> None:
    fill_again = "from tests.world import make_run; make_run(name='only here')"
    run_code(other, fill_again)
    data = ("runs", "networks", "compilations", "secret_key")
    before = files(other, *data)
    said = other.manage("restore", str(backup), "--force")
    assert counts(other)[0] == 1
    aside = next(other.var.glob("replaced-*"))
    assert str(aside) in said
    assert {f"{aside.name}/{name}": digest for name, digest in before.items()}.items() <= files(other, ".").items()
    count = "SELECT count(*) FROM tuning_run"
    if "DATABASE_URL" in other.env:
        schema = aside.name.replace("-", "_")
        assert schema in said
        assert run_sql(other, count.replace("tuning_run", f"{schema}.tuning_run")) == "2"
    else:
        with closing(sqlite3.connect(aside / "tuneboard.sqlite3")) as database:
            assert database.execute(count).fetchone() == (2,)


def test_a_damaged_sqlite_file_can_be_replaced(backup: Path, empty_site: LiveSite) -> None:
    empty_site.var.mkdir()
    (empty_site.var / "tuneboard.sqlite3").write_bytes(b"no database" * 1000)
    assert "There is a site already" in empty_site.refusal("restore", str(backup))
    empty_site.manage("restore", str(backup), "--force")
    assert counts(empty_site)[0] == 1


def run_sql(site: LiveSite, query: str) -> str:
    code = f"from django.db import connection as c; x = c.cursor(); x.execute({query!r}); print(x.fetchone()[0])"
    return run_code(site, code).strip()


@pytest.mark.both_databases
def test_a_restore_that_fails_at_the_end_brings_the_old_data_back(
    backup: Path, other: LiveSite, tmp_path: Path
) -> None:
    def without_tables(members: dict[str, bytes]) -> None:
        members["database"] = members["database"][:-5000]

    before = everything(other)
    broken = repacked(backup, tmp_path / "broken", without_tables)
    said = other.refusal("restore", str(broken), "--force")
    assert len(said.splitlines()) == 1, said
    assert everything(other) == before
    assert [path.name for path in other.var.iterdir() if "re" in path.name and "secret" not in path.name] == []


@pytest.mark.parametrize("place", [0, 100, -1000, -41, -1])
def test_a_changed_byte_is_noticed_and_nothing_touched(
    backup: Path, filled: LiveSite, tmp_path: Path, place: int
) -> None:
    data = bytearray(backup.read_bytes())
    data[place] ^= 4
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    before = everything(filled)
    for option in ("--force", "--verify"):
        said = filled.refusal("restore", str(damaged), option)
        assert "can't be restored" in said
        assert "Nothing was changed" in said
    assert everything(filled) == before


HOSTILE: dict[str, tuple[Callable[[dict[str, bytes]], Any], str]] = {
    "a path upwards": (lambda members: members.update({"../evil": b"x"}), "isn't a file of Tuneboard"),
    "an absolute path": (lambda members: members.update({"/tmp/evil": b"x"}), "isn't a file of Tuneboard"),
    "a lock": (lambda members: members.update({"up.lock": b"{}"}), "isn't a file of Tuneboard"),
    "more files than the manifest says": (
        lambda members: members.update({"runs/9-20200101T000000.000000/x": b""}),
        "more than its manifest says",
    ),
    "more bytes than the manifest says": (
        lambda members: members.update(database=members["database"] + bytes(10**6)),
        "more than its manifest says",
    ),
    "no database": (lambda members: members.pop("database"), "its database is missing"),
    "no manifest": (lambda members: members.pop("manifest.json"), "doesn't begin with a manifest"),
    "a later format": (with_manifest(format=2, bytes="unknown"), "made by a later Tuneboard"),
    "a later migration": (with_manifest(migrations=["tuning.9999_later"]), "doesn't have tuning.9999_later"),
    "more than the disk has": (with_manifest(bytes=1 << 60), "MiB free"),
    "a manifest of another kind": (with_manifest(bytes="many"), "its manifest can't be read"),
    "another database": (with_manifest(database="oracle"), "It is a backup of oracle"),
}
OF_THE_DATABASE = ("no database", "a later migration", "another database")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.both_databases] * (name in OF_THE_DATABASE)) for name in HOSTILE]
)
def test_a_backup_that_does_not_fit_is_refused_and_nothing_touched(
    backup: Path, filled: LiveSite, tmp_path: Path, name: str
) -> None:
    change, said = HOSTILE[name]
    before = everything(filled)
    hostile = repacked(backup, tmp_path / "hostile", change)
    refusal = filled.refusal("restore", str(hostile), "--force")
    assert said in refusal
    assert len(refusal.splitlines()) == 1
    assert everything(filled) == before
    assert not (filled.var.parent / "evil").exists()


def test_the_same_name_twice_is_refused(backup: Path, filled: LiveSite, tmp_path: Path) -> None:
    with archive.opened(backup) as file:
        members = [(member.name, member.file.read()) for member in archive.members(file)]
    with Writer(tmp_path / "twice") as writer:
        for name, content in [*members[:-1], members[1]]:
            writer.add(name, io.BytesIO(content), len(content), 0)
    assert "is in it twice" in filled.refusal("restore", str(tmp_path / "twice"), "--force")


def test_a_link_in_a_backup_is_refused(filled: LiveSite, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        link = tarfile.TarInfo("runs/1-20200101T000000.000000/console.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    data = zstandard.ZstdCompressor().compress(buffer.getvalue())
    hostile = tmp_path / "hostile"
    hostile.write_bytes(data + archive.MARK + hashlib.sha256(data).digest())
    assert "isn't a plain file" in filled.refusal("restore", str(hostile), "--force")


def test_what_is_no_backup_is_refused(filled: LiveSite, tmp_path: Path) -> None:
    for content in (b"", b"PK\x03\x04", b"x" * 10_000):
        (tmp_path / "file").write_bytes(content)
        assert "it isn't a backup by Tuneboard" in filled.refusal("restore", str(tmp_path / "file"))
    assert "No such file" in filled.refusal("restore", str(tmp_path / "missing"))


@pytest.mark.both_databases
def test_a_running_site_is_not_replaced(live_site: LiveSite, backup: Path) -> None:
    assert f"Tuneboard is already running on {live_site.var}, at {live_site.url}" in live_site.refusal(
        "restore", str(backup), "--force"
    )
    assert live_site.answers()


@pytest.mark.both_databases
def test_a_database_that_another_process_uses_is_not_replaced(backup: Path, other: LiveSite) -> None:
    """Such as `tune` in another shell, or the site's other containers."""
    hold = f"""
from django.db import connection
from tuning.models import Run
Run.objects.exists()
import subprocess, sys
done = subprocess.run([sys.executable, "-m", "django", "restore", {str(backup)!r}, "--force"], capture_output=True, text=True)
print(done.returncode, done.stderr)
"""
    said = run_code(other, hold)
    assert said.startswith(
        "1 CommandError: Other process" if "DATABASE_URL" in other.env else "1 CommandError: Another process"
    )
    assert counts(other)[0] == 1
    assert list(other.var.glob("re*-*")) == []


@pytest.mark.rare
@pytest.mark.tvm
def test_a_site_that_tunes_is_backed_up_destroyed_and_restored_and_reaches_its_budget(
    site_maker: SiteMaker, tmp_path: Path
) -> None:
    site, path = site_maker.prepared(), tmp_path / "site.tar.zst"
    site.start()
    token = site.token()
    pk = site.api("POST", "/runs", SMALL | {"seed": 1, "trials": 48}, token=token)[1]["id"]
    waiting = site.api("POST", "/runs", SMALL | {"seed": 2, "trials": 4}, token=token)[1]["id"]
    site.wait_for(lambda: site.api("GET", f"/runs/{pk}", token=token)[1]["trials_done"] >= 4, 300)
    backed_up = json.loads(site.manage("backup", str(path), "--json"))
    went_on = site.api("GET", f"/runs/{pk}", token=token)[1]
    assert went_on["status"] == "running", "it ended before the backup: this test needs a longer run"
    destroy(site)

    restored = site_maker.empty()
    restored.manage("restore", str(path))
    lines = len(records(restored, pk))
    assert backed_up["trials"] <= lines < 48, "no trial of the database lacks its line"
    run_code(restored, AGE)  # Otherwise the run's lease and its machine's would have to run out first.
    restored.start()
    restored.wait_for(lambda: status(restored, pk, token) == "interrupted", 90)
    assert restored.api("POST", f"/runs/{pk}/resume", token=token)[0] == 200
    for run in (pk, waiting):
        restored.wait_for(lambda run=run: status(restored, run, token) == "finished", 300)
    run = restored.api("GET", f"/runs/{pk}", token=token)[1]
    numbers = restored.api("GET", f"/runs/{pk}/trials?limit=100", token=token)[1]["number"]
    assert (run["trials_done"], numbers) == (48, list(range(1, 49)))
    assert len(records(restored, pk)) == 48


def status(site: LiveSite, pk: int, token: str) -> str:
    found: str = site.api("GET", f"/runs/{pk}", token=token)[1]["status"]
    return found


def records(site: LiveSite, pk: int) -> list[str]:
    return run_code(site, READ.format(pk=pk)).splitlines()
