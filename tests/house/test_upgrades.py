"""`manage.py up` on an earlier version's data: backs up, migrates, says so. Nothing uses a later version's database."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_migrations import fill, rows_of, run_code
from tests.live import ROOT, START_S, LiveSite
from tests.sites import SiteMaker

pytestmark = pytest.mark.both_databases
LATER = "INSERT INTO django_migrations (app, name, applied) VALUES ('tuning', '9999_later', '2026-01-01')"
GONE = "DELETE FROM django_migrations WHERE name = '9999_later'"
SQL = "from django.db import connection; connection.cursor().execute({!r})"
REFUSED = "The database was upgraded by a later Tuneboard: this one doesn't know tuning.9999_later."


@pytest.fixture(scope="module")
def model(site_maker: SiteMaker) -> LiveSite:
    site = site_maker.empty()
    fill(site)
    site.manage("migrate", "tuning", "0010", "--verbosity", "0")
    site.close()
    return site


@pytest.fixture
def earlier(site_maker: SiteMaker, model: LiveSite) -> Iterator[LiveSite]:
    """A site that isn't running, with the database of an earlier version."""
    site = site_maker.copied(model)
    yield site
    site.close()


@pytest.fixture(scope="module")
def later(site_maker: SiteMaker) -> LiveSite:
    """A site that isn't running, with the database of a later version. Nothing changes it."""
    site = site_maker.prepared()
    run_code(site, SQL.format(LATER))
    return site


def backups(site: LiveSite) -> list[Path]:
    return sorted((site.var / "backups").glob("*"))


def ended(site: LiveSite, *command: str) -> str:
    """What a process says that is expected to end with an error."""
    done = subprocess.run(
        [sys.executable, *command], env=site.env, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1, done.stdout
    return done.stderr + done.stdout


def test_up_backs_up_and_upgrades_and_says_so(earlier: LiveSite, site_maker: SiteMaker) -> None:
    before = rows_of(earlier)
    earlier.start()
    said = [line for line in earlier.said().splitlines() if not line.startswith("tuneboard: ")]  # An installation's.
    assert re.fullmatch(r"The database is of an earlier version: it lacks \d+ migrations\.", said[0])
    assert said[1].startswith("Backing up before the upgrade")
    (path,) = backups(earlier)
    assert said[2].startswith(f"The backup is {path} (")
    assert said[3] == "Upgraded the database."
    assert len(rows_of(earlier)["tuning_trial"]) == len(before["tuning_trial"])
    earlier.stop()
    other = site_maker.empty()
    other.manage("restore", str(path))
    assert rows_of(other)["tuning_trial"].keys() == before["tuning_trial"].keys()
    earlier.manage("create_token", "grace")
    assert backups(earlier) == [path], "there was nothing left to upgrade"


@pytest.mark.rare
@pytest.mark.one_database
def test_a_new_database_needs_no_backup(empty_site: LiveSite) -> None:
    assert empty_site.manage("create_token", "ann")
    assert backups(empty_site) == []


@pytest.mark.rare
@pytest.mark.one_database
def test_other_commands_back_up_too_and_print_only_their_result(earlier: LiveSite) -> None:
    assert earlier.manage("create_token", "grace").startswith("tb_")
    assert len(backups(earlier)) == 1


@pytest.mark.rare
@pytest.mark.one_database
def test_the_last_few_backups_are_kept(earlier: LiveSite) -> None:
    folder = earlier.var / "backups"
    folder.mkdir()
    for day in range(1, 5):
        (folder / f"before-upgrade-2020010{day}-000000.tar.zst").touch()
    (folder / "mine.tar.zst").touch()
    earlier.manage("create_token", "grace")
    names = [path.name for path in backups(earlier)]
    assert names[:2] == [f"before-upgrade-2020010{day}-000000.tar.zst" for day in (3, 4)]
    assert (len(names), names[-1]) == (4, "mine.tar.zst")


@pytest.mark.one_database
def test_without_a_backup_nothing_is_changed_unless_asked(earlier: LiveSite) -> None:
    (earlier.var / "backups").touch()  # A file is in the way of the folder.
    before = rows_of(earlier)
    said = ended(earlier, "manage.py", "up", "--port", str(earlier.port))
    assert "The backup before the upgrade failed" in said
    assert "manage.py up --no-backup" in said
    assert rows_of(earlier) == before
    earlier.launch("--no-demo", "--no-backup")
    earlier.wait_for(lambda: "Upgraded the database." in earlier.said(), START_S)


def test_a_disk_with_too_little_room_is_noticed_first(earlier: LiveSite) -> None:
    runs = earlier.var / "runs"
    runs.mkdir(exist_ok=True)
    with (runs / "large").open("wb") as file:
        file.truncate(6 * shutil.disk_usage(runs).free)
    before = rows_of(earlier)
    said = earlier.refusal("create_token", "grace")
    assert "It needs about" in said
    assert "MiB free" in said
    assert rows_of(earlier) == before
    assert backups(earlier) == []


def test_an_upgrade_that_fails_names_the_backup(earlier: LiveSite) -> None:
    run_code(earlier, SQL.format("CREATE INDEX trial_bests ON tuning_trial (number)"))
    said = earlier.refusal("create_token", "grace")
    (path,) = backups(earlier)
    assert "The upgrade of the database failed: " in said
    assert f"manage.py restore {path} --force" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "command",
    [
        ("up", "--port", "0"),
        ("tune", "matmul"),
        ("create_token", "ann"),
        ("login_url",),
        ("sweep",),
        ("seed_trials",),
        ("migrate",),
        ("compile", "1"),
    ],
    ids=" ".join,
)
def test_commands_refuse_a_later_database(later: LiveSite, command: tuple[str, ...]) -> None:
    before = rows_of(later)
    said = later.refusal(*command)
    assert REFUSED in said
    assert "Traceback" not in said
    assert rows_of(later) == before


def test_web_and_workers_refuse_a_later_database_in_one_line(later: LiveSite) -> None:
    for command in (("-m", "tuning.queue.worker", "cpu", "device.cpu"), ("-m", "dashboard.serve", "0")):
        said = ended(later, *command)
        assert REFUSED in said
        assert len(said.splitlines()) == 1


def test_a_site_whose_database_a_later_version_takes_over_says_that_it_is_unwell(live_site: LiveSite) -> None:
    assert live_site.answers()
    run_code(live_site, SQL.format(LATER))
    try:
        assert not live_site.answers()
    finally:
        run_code(live_site, SQL.format(GONE))
    assert live_site.answers()


def test_a_later_database_can_still_be_backed_up_but_not_restored_here(
    later: LiveSite, site_maker: SiteMaker, tmp_path: Path
) -> None:
    later.manage("backup", str(tmp_path / "site"))
    other = site_maker.empty()
    said = other.refusal("restore", str(tmp_path / "site"))
    assert "which doesn't have tuning.9999_later. Restore it with that version." in said


@pytest.mark.one_database
def test_migrations_of_apps_that_this_version_does_not_have_are_ignored(new_site: LiveSite) -> None:
    run_code(new_site, SQL.format(LATER.replace("tuning", "gone")))
    assert new_site.manage("create_token", "ann")
