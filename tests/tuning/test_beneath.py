"""Files are opened without following what another process left on the way."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.replacing import CANARY, WAYS, assert_untouched, canary_in, kernel, replace
from tuning import beneath
from tuning.beneath import NotRegular, open_file, stat_file

__all__ = ("kernel",)
pytestmark = pytest.mark.usefixtures("kernel")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "var" / "runs" / "1").mkdir(parents=True)
    (tmp_path / "var" / "runs" / "1" / "file").write_bytes(b"data")
    return tmp_path / "var"


@pytest.fixture
def file(root: Path) -> Path:
    return root / "runs" / "1" / "file"


def test_a_regular_file_is_read_written_and_looked_at(root: Path, file: Path) -> None:
    with open_file(root, "runs/1/file") as opened:
        assert opened.read() == b"data"
    with open_file(root, file, "ab") as opened:
        opened.write(b" more")
    with open_file(root, file, "r+b") as opened:
        opened.write(b"D")
    assert (file.read_bytes(), stat_file(root, file).st_size) == (b"Data more", 9)
    with open_file(root, file, "wb") as opened:
        opened.write(b"new")
    with open_file(root, file.with_name("other"), "xb") as opened:
        opened.write(b"other")
    with open_file(root, file.with_name("log"), "a+b") as opened:
        opened.write(b"log")
        opened.seek(0)
        assert opened.read() == b"log"
    assert sorted(path.read_bytes() for path in file.parent.iterdir()) == [b"log", b"new", b"other"]


@pytest.mark.parametrize("mode", get_args(beneath.Mode))
@pytest.mark.parametrize("how", WAYS)
def test_nothing_else_is_opened(root: Path, file: Path, tmp_path: Path, how: str, mode: Any) -> None:
    canary = canary_in(tmp_path)
    replace(file, how, canary)
    with pytest.raises((NotRegular, FileExistsError)):
        open_file(root, file, mode)
    assert_untouched(canary)


@pytest.mark.parametrize("how", WAYS)
def test_nothing_else_is_looked_at(root: Path, file: Path, tmp_path: Path, how: str) -> None:
    replace(file, how, canary_in(tmp_path))
    with pytest.raises(NotRegular, match=r"^file can't be read: it isn't a regular file\.$"):
        stat_file(root, file)


@pytest.mark.parametrize(
    "name", ["../canary", "/etc/passwd", "runs/../../canary", "runs/../runs/1/file", "", ".", "x\0y"]
)
def test_a_path_that_leads_elsewhere_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    canary_in(tmp_path)
    with pytest.raises(NotRegular):
        open_file(root, name)


def test_devices_and_what_the_kernel_shows_of_processes_are_refused() -> None:
    for root, name in (
        ("/dev", "null"),
        ("/dev", "zero"),
        (f"/proc/{os.getpid()}/fd", "0"),
        ("/proc/self", "root/etc/passwd"),
    ):
        with pytest.raises(NotRegular):
            open_file(Path(root), name)


def test_a_missing_file_is_missing(root: Path) -> None:
    for name in ("none", "runs/none/file"):
        with pytest.raises(FileNotFoundError):
            open_file(root, name)
    with pytest.raises(FileNotFoundError):
        open_file(root, "runs/none/file", "ab")


def test_a_file_that_was_removed_after_it_was_opened_can_be_read(root: Path, file: Path) -> None:
    with open_file(root, file) as opened:
        file.unlink()
        assert opened.read() == b"data"


def test_the_folder_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    with open_file(tmp_path / "link", "runs/1/file") as opened:
        assert opened.read() == b"data"


def test_a_users_own_file_may_have_several_names(root: Path, file: Path) -> None:
    os.link(file, file.with_name("same"))
    with open_file(root, file, names=beneath.ANY) as opened:
        assert opened.read() == b"data"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_or_a_filter_without_the_call_is_no_obstacle(
    root: Path, file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(beneath, "_openat2", refuse)
    with open_file(root, file) as opened:
        assert opened.read() == b"data"


def test_whatever_is_exchanged_meanwhile_the_canary_is_never_opened(root: Path, file: Path, tmp_path: Path) -> None:
    """The folder is a link to another one half of the time, and the file is half of the rest."""
    elsewhere, ended = tmp_path / "elsewhere", threading.Event()
    elsewhere.mkdir()
    (elsewhere / "file").write_bytes(CANARY)
    (tmp_path / "link").symlink_to(elsewhere)
    folder, aside = file.parent, tmp_path / "aside"

    def exchange() -> None:
        while not ended.is_set():
            folder.rename(aside)
            (tmp_path / "link").rename(folder)
            folder.rename(tmp_path / "link")
            aside.rename(folder)

    exchanging = threading.Thread(target=exchange)
    exchanging.start()
    seen = set()
    try:
        for mode, _ in zip(cycle(("rb", "r+b", "ab")), range(4000)):
            with suppress(NotRegular, FileNotFoundError), open_file(root, file, mode) as opened:  # type: ignore[arg-type]
                seen.add(os.fstat(opened.fileno()).st_ino)
    finally:
        ended.set()
        exchanging.join()
    assert seen <= {file.stat().st_ino}
    assert (elsewhere / "file").read_bytes() == CANARY
