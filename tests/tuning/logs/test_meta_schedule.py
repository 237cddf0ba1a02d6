from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.replacing import CANARY, WAYS, canary_in, kernel, replace
from tuning.beneath import NotRegular
from tuning.logs import meta_schedule

__all__ = ("kernel",)
LINE = '[0,[[[["GetSBlock",[],["matmul","main"],["b0"]]],[]],[0.001,0.003],{"kind":"llvm"},[]]]'
FAILED = '[1,[[[["GetSBlock",[],["add","main"],["b0"]]],[]],[10000000000],{"kind":"llvm"},[]]]'


def write(work_dir: Path, text: str) -> Path:
    path = work_dir / meta_schedule.RECORDS
    path.write_text(text)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(whole=st.integers(0, 3), torn=st.integers(1, len(LINE) - 1))
def test_it_drops_only_an_incomplete_last_line(whole: int, torn: int, tmp_path: Path) -> None:
    path = write(tmp_path, (LINE + "\n") * whole + LINE[:torn])
    assert "incomplete" in meta_schedule.repair(tmp_path)[0]
    assert path.read_text() == (LINE + "\n") * whole
    assert meta_schedule.repair(tmp_path) == []


def test_it_adds_a_missing_newline(tmp_path: Path) -> None:
    path = write(tmp_path, f"{LINE}\n{FAILED}")
    assert len(meta_schedule.repair(tmp_path)) == 1
    assert path.read_text() == f"{LINE}\n{FAILED}\n"


def test_it_repairs_the_workloads_too(tmp_path: Path) -> None:
    (tmp_path / meta_schedule.WORKLOADS).write_text('["12","b64"]\n["13","b6')
    meta_schedule.repair(tmp_path)
    assert meta_schedule.workload_hashes(tmp_path) == ["12"]


def test_the_files_may_be_missing(tmp_path: Path) -> None:
    assert meta_schedule.repair(tmp_path) == []
    assert meta_schedule.record_lines(tmp_path) == []
    assert meta_schedule.workload_hashes(tmp_path) == []


def test_it_tells_latencies_from_failures(tmp_path: Path) -> None:
    write(tmp_path, f"{LINE}\n{FAILED}\n")
    first, second = meta_schedule.record_lines(tmp_path)
    assert first == meta_schedule.RecordLine(workload=0, latency_s=0.002, repeats=2, lost=False)
    assert second == meta_schedule.RecordLine(workload=1, latency_s=None, repeats=1, lost=False)


def test_it_names_an_invalid_line(tmp_path: Path) -> None:
    write(tmp_path, f"{LINE}\nrubbish\n{LINE}\n")
    with pytest.raises(ValueError, match="line 2 isn't a tuning record"):
        meta_schedule.record_lines(tmp_path)


@pytest.mark.parametrize("lost", [0, 2])
def test_it_pads_the_file_for_lost_records(lost: int, tmp_path: Path) -> None:
    write(tmp_path, f"{LINE}\n")
    meta_schedule.pad(tmp_path, lost)
    assert [line.lost for line in meta_schedule.record_lines(tmp_path)] == [False] + [True] * lost
    assert all(line.latency_s is None for line in meta_schedule.record_lines(tmp_path)[1:])


def test_it_reads_each_appended_record_with_its_workload(tmp_path: Path) -> None:
    (tmp_path / meta_schedule.WORKLOADS).write_text('["12","first"]\n["13","second"]\n')
    path = write(tmp_path, f"{LINE}\n")
    tail = meta_schedule.RecordTail(tmp_path)
    with path.open("a") as file:
        file.write(f"{FAILED}\n{LINE}\n")
    assert json.loads(tail.read_next()) == [["13", "second"], json.loads(FAILED)[1]]
    assert json.loads(tail.read_next()) == [["12", "first"], json.loads(LINE)[1]]


def test_it_reads_the_last_records_with_their_workloads(tmp_path: Path) -> None:
    (tmp_path / meta_schedule.WORKLOADS).write_text('["12","first"]\n["13","second"]\n')
    write(tmp_path, f"{LINE}\n{FAILED}\n")
    assert [json.loads(text)[0] for text in meta_schedule.last_records(tmp_path, 1)] == [["13", "second"]]
    assert len(meta_schedule.last_records(tmp_path, 2)) == 2
    assert meta_schedule.last_records(tmp_path, 0) == []


def test_it_leaves_out_the_incomplete_line_of_a_growing_file(tmp_path: Path) -> None:
    (tmp_path / meta_schedule.WORKLOADS).write_text('["12","first"]\n["13","second"]\n')
    path = write(tmp_path, f"{LINE}\n{meta_schedule.LOST}\n{FAILED}\n{LINE}")
    workloads = (tmp_path / meta_schedule.WORKLOADS).read_bytes()
    with path.open("rb") as records:
        found = list(meta_schedule.entries(workloads, records, 9))
    assert [entry and json.loads(entry[0]) for entry in found] == [["12", "first"], None, ["13", "second"]]
    assert [entry and json.loads(entry[1]) for entry in found] == [json.loads(LINE)[1], None, json.loads(FAILED)[1]]
    with path.open("rb") as records:
        assert list(meta_schedule.entries(workloads, records, 1)) == found[:1]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("text", [CANARY + b"torn", CANARY.rstrip(b"\n")], ids=["torn", "without its end"])
def test_it_repairs_no_file_elsewhere(tmp_path: Path, how: str, text: bytes) -> None:
    canary = canary_in(tmp_path)
    canary.write_bytes(text)
    folder = tmp_path / "run"
    replace(folder / meta_schedule.RECORDS, how, canary)
    for change in (meta_schedule.repair, lambda path: meta_schedule.pad(path, 1)):
        with suppress(NotRegular):
            change(folder)
    assert canary.read_bytes() == text
    assert not canary.with_name("made-by-the-site").exists()
