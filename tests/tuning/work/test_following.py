"""Following a file: torn lines, rotation, truncation, and a file that isn't there for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.replacing import WAYS, assert_untouched, canary_in, kernel, replace
from tuning.beneath import NotRegular
from tuning.work.elsewhere import following
from tuning.work.elsewhere.firsts import first_trial
from tuning.work.elsewhere.following import Follower, Place


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.json"


@pytest.fixture
def following_it(log: Path) -> Iterator[Callable[..., Follower]]:
    made: list[Follower] = []

    def make(*place: Place) -> Follower:
        made.append(Follower(log, *place))
        return made[-1]

    yield make
    for each in made:
        each.close()


__all__ = ("kernel",)
Make = Callable[..., Follower]


def read(follower: Follower) -> list[str]:
    return [line.decode() for line in follower.read().lines]


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_a_torn_last_line_is_left_until_it_is_whole(following_it: Make, log: Path) -> None:
    follower = following_it()
    append(log, "one\ntw")
    assert read(follower) == ["one"]
    assert read(follower) == []
    append(log, "o\n")
    assert read(follower) == ["two"]


def test_it_waits_for_a_file_that_isnt_there(following_it: Make, log: Path) -> None:
    follower = following_it()
    assert read(follower) == []
    append(log, "one\n")
    assert read(follower) == ["one"]
    log.unlink()
    assert read(follower) == []


def test_a_rotated_file_is_read_to_its_end_first(following_it: Make, log: Path) -> None:
    follower = following_it()
    append(log, "one\n")
    read(follower)
    append(log, "two\nthree without an end")
    log.rename(log.with_suffix(".1"))
    append(log, "four\n")
    found = [follower.read() for _ in range(3)]
    assert [(news.lines, news.anew) for news in found] == [
        ([b"two"], False),
        ([b"three without an end"], False),
        ([b"four"], True),
    ]


def test_a_truncated_file_begins_anew(following_it: Make, log: Path) -> None:
    follower = following_it()
    append(log, "one\ntwo\n")
    read(follower)
    log.write_text("a\n")
    news = follower.read()
    assert (news.lines, news.anew) == ([b"a"], True)


def test_a_file_that_grew_past_the_place_after_it_was_truncated_begins_anew(following_it: Make, log: Path) -> None:
    follower = following_it()
    append(log, "one\ntwo\n")
    read(follower)
    log.write_text("other\nlines\nand more\n")
    news = follower.read()
    assert (news.lines, news.anew) == ([b"other", b"lines", b"and more"], True)


def test_another_process_goes_on_where_one_stopped(following_it: Make, log: Path) -> None:
    append(log, "one\ntwo\n")
    first = following_it()
    read(first)
    append(log, "three\n")
    assert read(following_it(first.place)) == ["three"]
    log.write_text("new\n")
    news = following_it(first.place).read()
    assert (news.lines, news.anew) == ([b"new"], True)


def test_a_large_file_comes_in_pieces(following_it: Make, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PIECE_BYTES", 64)
    lines = [f"line {number}" for number in range(100)] + ["x" * 500, "end"]
    append(log, "\n".join(lines) + "\n")
    follower, found = following_it(), []
    while (news := follower.read()).lines:
        found += [line.decode() for line in news.lines]
        assert news.more or found[-1] == "end"
    assert found == lines


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("how", [way for way in WAYS if way != "second name"])
@pytest.mark.parametrize("name", ["log.json", "database_workload.json"])
def test_a_link_that_takes_the_files_place_isnt_followed(tmp_path: Path, how: str, name: str) -> None:
    """When the file was chosen, its path had no links: it was in an allowed folder, wherever these led."""
    canary = canary_in(tmp_path)
    log = tmp_path / "watched" / name
    replace(log, how, canary)
    with pytest.raises(NotRegular):
        Follower(log).read()
    with pytest.raises(NotRegular):
        first_trial(log.with_name("log.json"))
    assert_untouched(canary)


def test_a_log_with_several_names_is_followed(following_it: Make, log: Path) -> None:
    append(log, "one\n")
    log.with_name("same").hardlink_to(log)
    assert read(following_it()) == ["one"]
