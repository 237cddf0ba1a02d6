"""Files in the database: they grow, are read at any place, and are copied to the machine that works with them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.storage_fixtures import On
from tuning.storage import Moved, Store, reading
from tuning.storage import shared as module
from tuning.storage.chunks import Damaged, packed
from tuning.storage.tables import Chunk, StoredFile

pytestmark = pytest.mark.django_db


@pytest.fixture
def log(shared: Store, settings: Any) -> Path:
    return Path(settings.VAR, "runs", "1-20260101T000000.000000", "console.log")


def content(shared: Store, path: Path) -> bytes:
    with shared.opened(path) as file:
        return file.read()


def test_it_reads_what_was_appended(shared: Store, log: Path) -> None:
    shared.append(log, 0, b"one\n")
    shared.append(log, 4, b"two\n")
    assert content(shared, log) == b"one\ntwo\n"
    assert (shared.length(log), shared.stored(log)) == (8, 8)
    assert not log.exists(), "nothing is local but what somebody works with"


@pytest.mark.parametrize("seed", range(5))
def test_any_part_can_be_read_of_whatever_chunks(
    shared: Store, log: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(module, "CHUNK_BYTES", 50)
    monkeypatch.setattr(reading, "AHEAD_BYTES", 30)
    text = draw.randbytes(400)
    at = 0
    while at < len(text):
        step = draw.randint(1, 120)
        shared.append(log, at, text[at : at + step])
        at = min(len(text), at + step)
    with shared.opened(log) as file:
        for _ in range(50):
            start, size = draw.randint(0, 420), draw.randint(0, 200)
            file.seek(start)
            assert file.read(size) == text[start : start + size]
        assert file.seek(-7, 2) == 393
        assert file.read() == text[-7:]
        assert file.read() == b""


def test_lines_are_read_as_of_any_file(shared: Store, log: Path) -> None:
    for number in range(100):
        shared.append(log, 3 * number, f"{number:02}\n".encode())
    with shared.opened(log) as file:
        assert [int(line) for line in file] == list(range(100))


def test_a_reader_sees_the_file_as_it_was_when_it_was_opened(shared: Store, log: Path) -> None:
    shared.append(log, 0, b"one\n")
    with shared.opened(log) as file:
        shared.append(log, 4, b"two\n")
        assert file.read() == b"one\n"


@pytest.mark.parametrize("start", [3, 5, 100])
def test_nothing_is_appended_beyond_the_end(shared: Store, log: Path, start: int) -> None:
    shared.append(log, 0, b"ab")
    with pytest.raises(Moved, match="doesn't end at byte"), transaction.atomic():
        shared.append(log, start, b"c")
    assert content(shared, log) == b"ab"


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(cut=st.integers(min_value=0, max_value=12))
def test_what_was_there_from_a_byte_on_is_overwritten(shared: Store, log: Path, cut: int) -> None:
    shared.remove(log)
    for at in range(0, 12, 4):
        shared.append(log, at, b"abcd")
    shared.append(log, cut, b"XY")
    assert content(shared, log) == b"abcdabcdabcd"[:cut] + b"XY"
    stops = list(Chunk.objects.order_by("stop").values_list("start", "stop"))
    assert [start for start, _ in stops] == [0, *(stop for _, stop in stops[:-1])]


def test_a_file_that_isnt_stored_is_read_where_it_is(shared: Store, log: Path) -> None:
    assert shared.length(log) is None
    with pytest.raises(FileNotFoundError):
        shared.opened(log)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"older")
    assert (content(shared, log), shared.length(log), shared.stored(log)) == (b"older", 5, 0)


def test_a_folder_is_removed_with_its_files_and_copies(shared: Store, log: Path) -> None:
    other = log.parent.with_name("10-20260101T000000.000000") / "console.log"
    for path in (log, log.with_name("more"), other):
        shared.append(path, 0, b"x")
        shared.restore(path)
    shared.remove(log.parent)
    assert list(StoredFile.objects.values_list("pk", flat=True)) == [f"runs/{other.parent.name}/console.log"]
    assert Chunk.objects.count() == 1
    assert (log.parent.exists(), other.exists()) == (False, True)


def test_another_machine_gets_a_copy(shared: Store, log: Path, machine: On) -> None:
    log.parent.mkdir(parents=True)
    log.write_bytes(b"model" * 1000)
    shared.prepare(log).add(log)
    there = machine("there") / "runs" / log.parent.name / log.name
    shared.fetch(there)
    assert there.read_bytes() == b"model" * 1000
    assert [path.name for path in there.parent.iterdir()] == [log.name], "no temporary file is left"


@pytest.mark.parametrize(
    ("local", "after"),
    [
        (None, b"one\ntwo\n"),
        (b"one\n", b"one\ntwo\n"),
        (b"one\ntwo\nth", b"one\ntwo\nth"),
        (b"one\nTWO\nthree\n", b"one\ntwo\n"),
    ],
    ids=["missing", "behind", "ahead", "another"],
)
def test_a_copy_that_is_ahead_stays_and_any_other_is_replaced(
    shared: Store, log: Path, local: bytes | None, after: bytes
) -> None:
    shared.append(log, 0, b"one\n")
    shared.append(log, 4, b"two\n")
    log.parent.mkdir(parents=True)
    if local is not None:
        log.write_bytes(local)
    shared.restore(log)
    assert log.read_bytes() == after


def test_a_copy_isnt_replaced_by_something_damaged(shared: Store, log: Path) -> None:
    shared.append(log, 0, b"one\n")
    Chunk.objects.update(data=packed(0, b"two\n").data)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"on")
    with pytest.raises(Damaged, match="isn't what was stored"):
        shared.restore(log)
    assert log.read_bytes() == b"on"
    Chunk.objects.update(data=packed(0, b"two" * 1000).data)
    with pytest.raises(Damaged, match="another size"):
        content(shared, log)


def test_django_uses_it_as_a_storage(shared: Store) -> None:
    assert shared.save("networks/a.onnx", ContentFile(b"abc")) == "networks/a.onnx"
    assert (shared.exists("networks/a.onnx"), shared.size("networks/a.onnx")) == (True, 3)
    with shared.open("networks/a.onnx") as file:
        assert file.read() == b"abc"
    shared.save("networks/more/b.onnx", ContentFile(b""))
    assert shared.listdir("networks") == (["more"], ["a.onnx"])
    shared.delete("networks/a.onnx")
    with pytest.raises(FileNotFoundError):
        shared.open("networks/a.onnx")
    with pytest.raises(ValueError, match="only be opened to be read"):
        shared.open("networks/more/b.onnx", "wb")


def test_a_transaction_that_fails_stores_nothing(shared: Store, log: Path) -> None:
    shared.append(log, 0, b"one\n")
    with transaction.atomic():
        shared.append(log, 4, b"two\n")
        transaction.set_rollback(True)
    assert content(shared, log) == b"one\n"
    shared.append(log, 4, b"2\n")
    assert content(shared, log) == b"one\n2\n"
