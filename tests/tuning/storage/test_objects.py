"""Files in an object store, with a real S3 server: nothing is lost when it is away, and nothing is left behind in it."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from django.core.management import call_command
from django.utils import timezone
from moto.server import ThreadedMotoServer

from dashboard import checks
from tests.storage_fixtures import On, on, use
from tests.world import make_network, make_run
from tuning.backup.contents import plan
from tuning.models import Chunk, LooseObject, StoredFile
from tuning.reads.console import console
from tuning.storage import Away, Store, checking, figures, moving, objects, settling, store
from tuning.storage.settling import NEEDLESS, QUIET, settle

pytestmark = pytest.mark.django_db(transaction=True)
BUCKET, PLACE, SECRET = "tuneboard-tests", "s3://tuneboard-tests/site", "a key that nobody must see"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    found = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    found.start()
    yield "http://{}:{}".format(*found.get_host_and_port())
    found.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty bucket, in the environment as for a site."""
    values = {
        "ENDPOINT_URL_S3": server,
        "DEFAULT_REGION": "us-east-1",
        "ACCESS_KEY_ID": "me",
        "SECRET_ACCESS_KEY": SECRET,
    }
    for name, value in values.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    objects._storage.cache_clear()
    monkeypatch.setattr(settling, "_away_until", 0.0)
    made = boto3.resource("s3").Bucket(BUCKET)
    made.create()
    yield made
    made.objects.all().delete()
    made.delete()
    objects._storage.cache_clear()


@pytest.fixture
def s3(bucket: Any, settings: Any, tmp_path: Path) -> Store:
    on(settings, tmp_path, "here")
    return use(settings, PLACE)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing answers there any more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        objects._storage.cache_clear()
        yield
    objects._storage.cache_clear()


@pytest.fixture
def log(settings: Any) -> Path:
    return Path(settings.VAR, "runs", "1-20260101T000000.000000", "console.log")


def keys(bucket: Any) -> set[str]:
    return {f"s3://{BUCKET}/{each.key}" for each in bucket.objects.all()}


def be_quiet() -> None:
    StoredFile.objects.update(changed_at=timezone.now() - QUIET - timedelta(seconds=1))


def content(path: Path) -> bytes:
    with store().opened(path) as file:
        return file.read()


def keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    store().prepare(path).add(path)


def test_a_file_becomes_an_object_and_is_read_on_another_machine(s3: Store, bucket: Any, machine: On) -> None:
    model = make_network(sha256="b" * 64)
    keep(model.file, b"model" * 10_000)
    assert keys(bucket) == set(Chunk.objects.values_list("url", flat=True))
    assert (LooseObject.objects.count(), bytes(Chunk.objects.get().data)) == (0, b"")
    there = machine("there")
    assert model.spec().file
    assert model.file.is_relative_to(there)
    assert model.file.read_bytes() == b"model" * 10_000


def test_what_grows_becomes_an_object_once_it_is_quiet(s3: Store, bucket: Any, log: Path) -> None:
    for at in range(3):
        s3.append(log, 4 * at, b"abc\n")
    settle()
    assert keys(bucket) == set(), "one request for each line would be slow and dear"
    be_quiet()
    settle()
    assert (len(keys(bucket)), Chunk.objects.get().url) == (1, *keys(bucket))
    s3.append(log, 12, b"more\n")
    assert content(log) == b"abc\n" * 3 + b"more\n"
    found = figures.stored()
    assert found
    assert (found.place, found.files, found.size) == (PLACE, 1, 17)
    assert found.in_objects > 0


def test_a_store_that_is_away_loses_nothing_and_is_told(
    s3: Store, bucket: Any, log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    s3.append(log, 0, b"before\n")
    be_quiet()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        objects._storage.cache_clear()
        settle()
        s3.append(log, 7, b"meanwhile\n")
        assert content(log) == b"before\nmeanwhile\n"
        settle()
    assert caplog.text.count("stays in the database until it answers") == 1, "it is left alone for a while"
    assert "TUNEBOARD_STORAGE" in caplog.text
    assert SECRET not in caplog.text
    objects._storage.cache_clear()
    monkeypatch.setattr(settling, "_away_until", 0.0)
    be_quiet()
    settle()
    assert content(log) == b"before\nmeanwhile\n"
    assert len(keys(bucket)) == 1


def test_an_object_that_a_crash_left_is_deleted_later(s3: Store, bucket: Any, log: Path) -> None:
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x")
    s3.prepare(log)  # Here the process is killed.
    assert len(keys(bucket)) == 1
    settle()
    assert len(keys(bucket)) == 1, "it may still be needed"
    LooseObject.objects.update(at=timezone.now() - NEEDLESS - timedelta(minutes=1))
    settle()
    assert (keys(bucket), LooseObject.objects.count()) == (set(), 0)


def test_objects_of_what_was_removed_are_deleted_later(s3: Store, bucket: Any, log: Path) -> None:
    keep(log, b"x")
    s3.remove(log.parent)
    assert (len(keys(bucket)), LooseObject.objects.count()) == (1, 1)
    LooseObject.objects.update(at=timezone.now() - NEEDLESS - timedelta(minutes=1))
    settle()
    assert keys(bucket) == set()


def test_it_is_told_that_the_store_is_away(s3: Store, away: None) -> None:
    run = make_run()
    StoredFile.objects.create(pk=f"runs/{run.work_dir.name}.log", size=3, changed_at=timezone.now())
    Chunk.objects.create(
        file_id=f"runs/{run.work_dir.name}.log", start=0, stop=3, packed=1, digest=b"", url=f"{PLACE}/gone"
    )
    assert "can't be reached right now" in console(run)["text"]
    with pytest.raises(Away, match=r"bucket tuneboard-tests \(TUNEBOARD_STORAGE\) can't be used: Could not connect"):
        content(run.console_log)


def test_an_object_that_is_gone_is_named(s3: Store, bucket: Any, log: Path) -> None:
    keep(log, b"x")
    bucket.objects.all().delete()
    with pytest.raises(FileNotFoundError, match=f"{PLACE}/.* is gone from the object store"):
        content(log)


def test_the_check_says_the_same_again(s3: Store, away: None) -> None:
    """It would be printed every few seconds otherwise."""
    said = checking.trouble()
    assert said
    assert checking.trouble() == said


def test_the_check_says_whether_the_store_can_be_used(s3: Store, bucket: Any, settings: Any) -> None:
    assert (checking.trouble(), keys(bucket)) == (None, set())
    use(settings, "s3://no-such-bucket")
    (found,) = checks.store_is_usable()
    assert "The bucket no-such-bucket (TUNEBOARD_STORAGE) can't be used:" in str(found.msg)
    assert SECRET not in str(found.msg)


def test_files_move_between_all_stores(s3: Store, bucket: Any, settings: Any) -> None:
    model = make_network(sha256="c" * 64)
    keep(model.file, b"model")
    shutil.rmtree(settings.VAR / "networks")
    for place in ("", f"s3://{BUCKET}/elsewhere", PLACE, None):
        use(settings, place)
        assert checking.advice()
        call_command("move_files", stdout=io.StringIO())
        assert checking.advice() is None
        assert content(model.file) == b"model"
        assert len(keys(bucket)) == (1 if place else 0)
    assert model.file.read_bytes() == b"model"


def test_a_backup_has_the_files_and_a_restore_forgets_the_objects(s3: Store, bucket: Any, settings: Any) -> None:
    model = make_network(sha256="d" * 64)
    keep(model.file, b"model")
    shutil.rmtree(settings.VAR / "networks")
    planned = plan("default", {})
    found = {item.name: item for item in planned.items}
    item = found[f"networks/{model.file.name}"]
    with item.open() as file:
        assert (file.read(item.size), planned.missing) == (b"model", [])
    assert moving.forget_objects() == 1
    assert (StoredFile.objects.count(), Chunk.objects.count(), LooseObject.objects.count()) == (0, 0, 0)
    assert len(keys(bucket)) == 1, "they may be another site's"
