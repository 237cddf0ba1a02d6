"""What was appended bit by bit is joined to larger chunks, while others read and append."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tuning.storage import Store, chunks, settling
from tuning.storage import shared as shared_module
from tuning.storage.settling import QUIET, settle
from tuning.storage.tables import Chunk, StoredFile

pytestmark = pytest.mark.django_db


@pytest.fixture
def log(shared: Store, settings: Any) -> Path:
    return Path(settings.VAR, "runs", "1-20260101T000000.000000", "console.log")


def grow(store: Store, path: Path, times: int, piece: bytes = b"0123456789") -> None:
    for _ in range(times):
        store.append(path, store.stored(path), piece)


def be_quiet() -> None:
    StoredFile.objects.update(changed_at=timezone.now() - QUIET - timedelta(seconds=1))


def content(store: Store, path: Path) -> bytes:
    with store.opened(path) as file:
        return file.read()


def loose() -> int:
    return StoredFile.objects.get().loose


def test_a_file_that_grows_is_left_alone_until_it_has_many_chunks(shared: Store, log: Path) -> None:
    grow(shared, log, settling.MANY - 1)
    settle()
    assert Chunk.objects.count() == settling.MANY - 1
    grow(shared, log, 1)
    settle()
    assert (Chunk.objects.count(), loose()) == (1, 1), "it is still small, so it will be joined again"
    assert content(shared, log) == b"0123456789" * settling.MANY


def test_a_quiet_file_becomes_one_chunk_and_can_grow_again(shared: Store, log: Path) -> None:
    grow(shared, log, 3)
    be_quiet()
    settle()
    assert (Chunk.objects.count(), loose()) == (1, 0)
    grow(shared, log, 2)
    be_quiet()
    settle()
    assert (Chunk.objects.count(), loose()) == (2, 0), "what is settled isn't written again"
    assert content(shared, log) == b"0123456789" * 5


def test_large_chunks_stay_and_no_chunk_becomes_too_large(
    shared: Store, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (settling, shared_module):
        monkeypatch.setattr(module, "SETTLED_FROM", 40)
        monkeypatch.setattr(module, "CHUNK_BYTES", 50)
    grow(shared, log, 12)
    grow(shared, log, 1, b"x" * 45)
    grow(shared, log, 2)
    be_quiet()
    settle()
    sizes = [stop - start for start, stop in Chunk.objects.order_by("stop").values_list("start", "stop")]
    assert sizes == [50, 50, 20, 45, 20]
    assert content(shared, log) == b"0123456789" * 12 + b"x" * 45 + b"0123456789" * 2


def test_a_reader_goes_on_while_chunks_are_joined(shared: Store, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuning.storage.reading.AHEAD_BYTES", 16)
    grow(shared, log, 20)
    with shared.opened(log) as file:
        assert file.read(5) == b"01234"
        be_quiet()
        settle()
        assert file.read() == b"56789" + b"0123456789" * 19


def test_chunks_that_were_cut_off_meanwhile_are_not_brought_back(
    shared: Store, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(shared, log, 3)
    be_quiet()
    pack = chunks.packed

    def and_cut(*args: Any, **kwargs: Any) -> Chunk:
        monkeypatch.setattr(chunks, "packed", pack)
        shared.append(log, 15, b"cut")
        return pack(*args, **kwargs)

    monkeypatch.setattr(chunks, "packed", and_cut)
    settle()
    assert content(shared, log) == b"012345678901234cut"


def test_a_damaged_chunk_keeps_no_sweep_from_going_on(
    shared: Store, log: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "_away_until", 0.0)
    grow(shared, log, 3)
    be_quiet()
    Chunk.objects.update(data=b"rubbish")
    settle()
    assert "can't be settled" in caplog.text
    assert Chunk.objects.count() == 3
