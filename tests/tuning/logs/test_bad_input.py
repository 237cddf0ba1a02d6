"""What isn't a record is reported by file, line and reason, and everything around it is kept."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replacing import WAYS, assert_untouched, canary_in, kernel, replace
from tests.tuning.logs import examples
from tests.tuning.logs.examples import CONV2D, auto_scheduler, autotvm, meta_schedule, old_autotvm, workload
from tuning.logs.neutral import BadLine, Trial
from tuning.logs.opening import open_logs
from tuning.logs.sources import Limits, of_file, sources

__all__ = ("kernel",)
RUBBISH = {
    "no JSON": ('{"i": [[', "it isn't JSON"),
    "text": ("hello", "it isn't JSON"),
    "another object": ('{"a": 1}', "it isn't an auto_scheduler record"),
    "a number as a version": (auto_scheduler().replace('"v0.6"', "6"), "it isn't an auto_scheduler record"),
    "costs that are text": (auto_scheduler(costs="fast"), "it isn't an auto_scheduler record"),
    "no target": (auto_scheduler().replace('"llvm -keys=cpu"', "3"), "a workload key and a target"),
    "a broken workload key": (auto_scheduler().replace(examples.MD5, "\\\\"), "isn't JSON"),
    "another format": (autotvm(), "it is an AutoTVM record, but the file began with auto_scheduler's"),
    "a workload": (workload(), "it is a line of a MetaSchedule workload file"),
    "a pickle": ("gASVBQAAAAAAAABdlC4=\tgASV\tgASV\tgASV", "a pickle may run any code"),
    "depth": ('{"i":[[],' + "[" * 200_000, "nested too deeply"),
    "too large a number": (auto_scheduler().replace("0.002", "1e999"), "Number out of range"),
    "no Unicode": ('{"v": "\udcff"}', "it isn't"),
}  # fmt: skip


@pytest.mark.parametrize("name", RUBBISH)
def test_it_keeps_what_is_around_a_bad_line(name: str) -> None:
    line, reason = RUBBISH[name]
    text = examples.lines(auto_scheduler(), "# a comment", line, "", " " + auto_scheduler(), "   ")
    (log,) = examples.open_text(log=text.encode("utf-8", "surrogateescape")).logs
    found = examples.everything(log)
    assert [trial.line for trial in examples.trials(found)] == [1, 5]
    (bad,) = examples.bad(found)
    assert (bad.file, bad.line) == ("log.json", 3)
    assert reason in bad.reason
    assert (log.lines, log.records, log.blank, log.comments, log.bad) == (6, 2, 2, 1, 1)


@pytest.mark.parametrize("line", [auto_scheduler(), autotvm(), old_autotvm(), meta_schedule()])
def test_a_task_that_cant_be_read_is_bad_each_time(line: str) -> None:
    broken = line.replace("llvm", "-").replace("cuda", "-").replace('"kind"', '"sort"')
    log, found = examples.read(line, broken, broken, line)
    assert [trial.line for trial in examples.trials(found)] == [1, 4]
    assert [bad.line for bad in examples.bad(found)] == [2, 3]
    assert log.digest() == examples.read(line, line)[0].digest()


def test_a_torn_last_line_is_said_to_be_one() -> None:
    log, found = examples.read(auto_scheduler(), auto_scheduler()[:100], end="")
    assert examples.bad(found) == [BadLine("log.json", 2, "it is torn: the file ends in the middle of it")]
    assert log.records == 1


def test_a_last_line_without_its_newline_is_a_record() -> None:
    assert len(examples.trials(examples.read(auto_scheduler(), auto_scheduler(), end="")[1])) == 2


def test_lines_may_end_as_on_windows() -> None:
    log, found = examples.read(auto_scheduler() + "\r", "\r", auto_scheduler() + "\r")
    assert (len(examples.trials(found)), log.blank) == (2, 1)
    assert log.digest() == examples.read(auto_scheduler(), auto_scheduler())[0].digest()


def test_a_line_beyond_the_limit_is_bad_and_the_next_is_read() -> None:
    text = examples.lines(auto_scheduler(), "[" + "1," * 4_000_000, auto_scheduler()).encode()
    (log,) = open_logs(of_file("log.json", lambda: io.BytesIO(text), Limits(line_bytes=5_000_000))).logs
    found = examples.everything(log)
    assert [trial.line for trial in examples.trials(found)] == [1, 3]
    assert [(bad.line, bad.reason) for bad in examples.bad(found)] == [(2, "it is longer than 5,000,000 bytes")]


def test_sessions_are_told_by_pauses_and_not_by_times_within_a_batch() -> None:
    times = [1000, 1060, 1040, 9000, 9010, 500, 505]
    log, _ = examples.read(*(auto_scheduler(at=1_700_000_000 + at) for at in times))
    assert [(session.first, session.started) for session in log.sessions] == [
        (1, 1_700_001_000),
        (4, 1_700_009_000),
        (6, 1_700_000_500),
    ]


WITHOUT_RECORDS = {
    "empty": (b"", "it is empty"),
    "comments": (b"\n# nothing\n\n", "it has only blank lines and comments"),
    "text": (b"hello\n", "there is no record of a known format in it"),
    "binary": (b"\x7fELF\0\0\0", "it is binary, and no log of a known format"),
    "pickles": (b"gASVBQAAAAAAAABdlC4=\tgASVxx\tgASVxx\tgASVxx\n", "a pickle may run any code"),
    "broken gzip": (b"\x1f\x8b\x08\0rubbish", "it is broken"),
    "broken zip": (b"PK\x03\x04rubbish", "it is broken: File is not a zip file"),
    "torn gzip": (gzip.compress(b"hello\n" * 1000)[:-20], "it is broken"),
}


@pytest.mark.parametrize("name", WITHOUT_RECORDS)
def test_a_file_without_records_is_skipped_with_the_reason(name: str) -> None:
    content, reason = WITHOUT_RECORDS[name]
    opened = examples.open_files({"file": content})
    assert opened.logs == []
    (skipped,) = opened.skipped
    assert skipped.file == "file"
    assert reason in skipped.reason


def test_a_folder_without_records_names_every_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "readme.txt").write_text("hello")
    (tmp_path / "link.json").symlink_to(tmp_path / "deep")
    os.mkfifo(tmp_path / "pipe")
    opened = open_logs(sources(tmp_path))
    assert opened.logs == []
    assert [each.file for each in opened.skipped] == ["link.json", "pipe", "deep/readme.txt"]


def test_a_path_that_isnt_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sources(tmp_path / "missing")


def test_gzip_and_zip_are_read_by_content() -> None:
    text = examples.lines(auto_scheduler()).encode()
    files = {
        "plain.txt": text,
        "packed.json": gzip.compress(text),
        "archive.log": zipped({"a/b.json": text, "c.gz": gzip.compress(text)}),
    }
    opened = examples.open_files(files)
    assert [log.name for log in opened.logs] == ["archive.log/a/b.json", "archive.log/c.gz", "packed.json", "plain.txt"]
    assert len({log.digest() for log in opened.logs}) == 1
    assert opened.skipped == []


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()


def test_a_gzip_that_ends_early_keeps_what_came_before() -> None:
    text = examples.lines(*(auto_scheduler(at=1_700_000_000 + at * 7919 % 1000) for at in range(5000)))
    packed = gzip.compress(text.encode())
    (log,) = examples.open_files({"log.gz": packed[: len(packed) // 2]}).logs
    found = examples.everything(log)
    assert len(examples.trials(found)) > 100
    assert "what follows wasn't read" in examples.bad(found)[-1].reason


def test_a_bomb_isnt_unpacked() -> None:
    content = (b" " * 1_000_000 + auto_scheduler().encode() + b"\n") * 80
    bomb = gzip.compress(content)
    (log,) = open_logs(of_file("bomb.gz", lambda: io.BytesIO(bomb))).logs
    *_, last = log.batches()
    assert isinstance(last[-1], BadLine)
    assert "more than 200 times its size, as a bomb would" in last[-1].reason
    opened = examples.open_files({"bomb.zip": zipped({"log.json": content})})
    assert "more than 200 times its size" in opened.skipped[0].reason


def test_limits_of_size_and_number_are_kept() -> None:
    text = (auto_scheduler() + "\n").encode() * 1000
    limits = Limits(unpacked_bytes=200_000, members=2)
    (log,) = open_logs(of_file("log.json", lambda: io.BytesIO(text), limits)).logs
    found = examples.everything(log)
    assert examples.bad(found)[-1].reason == "it has more than 200,000 bytes; what follows wasn't read"
    assert len(examples.trials(found)) > 400
    many = zipped({f"{number}.json": b"x" for number in range(3)})
    skipped = of_file("many.zip", lambda: io.BytesIO(many), limits).skipped
    assert [each.reason for each in skipped] == ["the archive has 3 files; at most 2 are read"]
    large = zipped({"log.json": text})
    (skipped_file,) = of_file("large.zip", lambda: io.BytesIO(large), limits).skipped
    assert "at most 200,000 are read" in skipped_file.reason


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \t\x0b\x0c\n"])
@pytest.mark.parametrize("number", [1, 2, 1000, 2_500_000])
def test_blank_lines_are_counted_wherever_they_are(number: int, end: bytes) -> None:
    record = auto_scheduler().encode() + b"\n"
    text = end * number + record + end * number + b"# a comment\n" + b"rubbish\n" + end * number + record + end * number
    (log,) = open_logs(of_file("log.json", lambda: io.BytesIO(text))).logs
    found = examples.everything(log)
    assert [each.line for each in examples.bad(found)] == [2 * number + 3]
    assert (log.records, log.blank, log.comments, log.bad) == (2, 4 * number, 1, 1)
    assert log.lines == text.count(b"\n")


def test_spaces_without_a_newline_are_a_line(tmp_path: Path) -> None:
    text = b"\n" * 50_000 + auto_scheduler().encode() + b"\n" + b" \n" * 50_000 + b" " * 50_000
    (log,) = open_logs(of_file("log.json", lambda: io.BytesIO(text))).logs
    assert examples.bad(examples.everything(log)) == []
    assert (log.records, log.blank, log.lines) == (1, 100_001, 100_002)


@pytest.mark.parametrize(("line", "limit"), [(b"#", "1,000,000 lines"), (b"#" * 200, "64 MiB"), (b"", "64 MiB")])
def test_a_record_that_comes_late_isnt_looked_for(line: bytes, limit: str) -> None:
    text = gzip.compress((line + b"\n") * (1_100_000 if line == b"#" else (70 << 20) // (len(line) + 1)), 1)
    (skipped,) = open_logs(of_file("log.json", lambda: io.BytesIO(text), Limits(ratio=10_000))).skipped
    assert skipped.reason == f"there is no record in its first {limit}"


def test_the_directory_of_an_archive_is_read_once() -> None:
    data = zipped({f"{number}.json": auto_scheduler().encode() for number in range(50)})
    read: list[int] = []

    class Counted(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            if offset == -22:  # The size of the record at an archive's end.
                read.append(offset)
            return super().seek(offset, whence)

    opened = open_logs(of_file("many.zip", lambda: Counted(data)))
    assert [len(examples.trials(examples.everything(log))) for log in opened.logs] == [1] * 50
    assert len(read) == 1


def test_files_of_an_archive_may_be_read_at_once() -> None:
    texts = {f"{number}.json": (auto_scheduler() + "\n").encode() * 9_000 for number in range(2)}
    first, second = (log.batches() for log in examples.open_files({"two.zip": zipped(texts)}).logs)
    assert len(next(first)) > 0
    assert sum(map(len, second)) == 9_000
    assert sum(map(len, first)) > 0


def test_files_that_overlap_arent_read() -> None:
    data = zipped({"log.json": os.urandom(20_000)})
    directory, end = data.index(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    entry, tail = data[directory:end], data[end:]
    number, size = struct.pack("<HH", 60, 60), struct.pack("<I", 60 * len(entry))
    bomb = data[:directory] + entry * 60 + tail[:8] + number + size + tail[16:]
    (skipped,) = of_file("bomb.zip", lambda: io.BytesIO(bomb)).skipped
    assert skipped.reason == "its files overlap, as in a bomb"


def test_an_archive_within_an_archive_is_skipped() -> None:
    inner = zipped({"log.json": auto_scheduler().encode()})
    assert [each.file for each in examples.open_files({"outer.zip": zipped({"inner.zip": inner})}).skipped] == [
        "outer.zip/inner.zip"
    ]


@pytest.mark.rare
@settings(max_examples=10_000)
@given(data=st.data())
def test_no_mutation_of_lines_crashes_or_loses_one_10000_times(data: st.DataObject) -> None:
    check_mutated(data)


@settings(max_examples=200)
@given(data=st.data())
def test_no_mutation_of_lines_crashes_or_loses_one(data: st.DataObject) -> None:
    check_mutated(data)


KINDS = [[auto_scheduler(), auto_scheduler("v0.2")], [autotvm(), old_autotvm()], [meta_schedule(), meta_schedule(1)]]
VALUES = [
    "null",
    "[]",
    "{}",
    "-1",
    "1e308",
    "NaN",
    "-Infinity",
    '""',
    '"x"',
    "true",
    "18446744073709551616",
    '"\\ud800"',
]


def check_mutated(data: st.DataObject) -> None:
    """Lines in = records + reported + blank + comments, whatever the lines are."""
    kind = data.draw(st.sampled_from(KINDS))
    mutated = [mutate(data, data.draw(st.sampled_from(kind)).encode()) for _ in range(data.draw(st.integers(1, 4)))]
    text = b"\n".join([kind[0].encode(), *mutated]) + data.draw(st.sampled_from([b"", b"\n"]))
    opened = examples.open_files({"log.json": text, "database_workload.json": workload()})
    (log,) = [each for each in opened.logs if each.name == "log.json"]
    found = examples.everything(log)
    count = text.count(b"\n") + (not text.endswith(b"\n"))
    assert log.lines == count == log.records + log.bad + log.blank + log.comments
    assert (len(examples.trials(found)), len(examples.bad(found))) == (log.records, log.bad)
    assert all(isinstance(each, Trial) or each.reason for each in found)
    assert sorted([each.line for each in found]) == [each.line for each in found]
    lines = text.split(b"\n")
    assert all(trial.record == lines[trial.line - 1] for trial in examples.trials(found))
    assert all((trial.latency_s is None) == (trial.error_kind is not None) for trial in examples.trials(found))
    assert all(trial.task in log.tasks for trial in examples.trials(found))
    json.dumps([str(task) for task in log.tasks.values()])


def mutate(data: st.DataObject, line: bytes) -> bytes:
    """The line with a piece cut out, doubled, or replaced by a value, rubbish or another line."""
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, min(len(line), start + 40)))
    put = data.draw(
        st.one_of(
            st.just(b""),
            st.just(line[start:end] * 2),
            st.sampled_from(VALUES).map(str.encode),
            st.binary(max_size=5),
            st.sampled_from([each.encode() for kind in KINDS for each in kind]),
        )
    )
    return line[:start] + put + line[end:]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("how", [way for way in WAYS if way != "second name"])
def test_a_file_that_is_replaced_after_its_folder_was_listed_isnt_followed(tmp_path: Path, how: str) -> None:
    canary = canary_in(tmp_path)
    log = tmp_path / "logs" / "run" / "log.json"
    log.parent.mkdir(parents=True)
    log.write_text(f"{auto_scheduler()}\n")
    (source,) = sources(tmp_path / "logs").sources
    replace(log, how, canary)
    with pytest.raises(OSError, match=r"can't be read: it isn't a regular file|No such file"):
        source.open()
    assert_untouched(canary)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (autotvm(name="conv2d; import os"), "it can't be used: an argument of its task isn't a word"),
        (autotvm(args=[*CONV2D, "a b"]), "it can't be used: an argument of its task isn't a word"),
        (
            auto_scheduler().replace("auto_unroll_max_step$512", "import_llvm"),
            "it can't be used: one of its steps isn't as TVM writes it",
        ),
        (
            auto_scheduler("v0.4").replace("-arch=sm_80", "-arch=sm_80 -host=c"),
            "its target has a host, and the record names another one",
        ),
    ],
)
def test_a_record_that_cannot_be_used_is_a_bad_line(line: str, reason: str) -> None:
    honest = auto_scheduler() if '"i"' in line else autotvm()
    (log,) = examples.open_text(log=examples.lines(honest, line)).logs
    (bad,) = examples.bad(examples.everything(log))
    assert bad.line == 2
    assert bad.reason.startswith(reason)
