from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuning.logs import meta_schedule

LINE = '[0,[[[["GetSBlock",[],["matmul","main"],["b0"]]],[]],[0.001,0.003],{"kind":"llvm"},[]]]'
FAILED = '[1,[[[["GetSBlock",[],["add","main"],["b0"]]],[]],[10000000000],{"kind":"llvm"},[]]]'


def write(work_dir: Path, text: str) -> Path:
    path = work_dir / meta_schedule.RECORDS
    path.write_text(text)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(whole=st.integers(0, 3), torn=st.integers(1, len(LINE) - 1))
def test_it_drops_a_torn_last_line_and_no_other(whole: int, torn: int, tmp_path: Path) -> None:
    path = write(tmp_path, (LINE + "\n") * whole + LINE[:torn])
    assert "torn" in meta_schedule.repair(tmp_path)[0]
    assert path.read_text() == (LINE + "\n") * whole
    assert meta_schedule.repair(tmp_path) == []


def test_it_ends_a_last_line_that_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path, f"{LINE}\n{FAILED}")
    assert len(meta_schedule.repair(tmp_path)) == 1
    assert path.read_text() == f"{LINE}\n{FAILED}\n"


def test_it_repairs_the_workloads_too(tmp_path: Path) -> None:
    (tmp_path / meta_schedule.WORKLOADS).write_text('["12","b64"]\n["13","b6')
    meta_schedule.repair(tmp_path)
    assert meta_schedule.workload_hashes(tmp_path) == ["12"]


def test_there_may_be_no_files_yet(tmp_path: Path) -> None:
    assert meta_schedule.repair(tmp_path) == []
    assert meta_schedule.recorded(tmp_path) == []
    assert meta_schedule.workload_hashes(tmp_path) == []


def test_it_tells_latencies_from_failures(tmp_path: Path) -> None:
    write(tmp_path, f"{LINE}\n{FAILED}\n")
    first, second = meta_schedule.recorded(tmp_path)
    assert first == meta_schedule.Recorded(workload=0, latency_s=0.002, repeats=2, lost=False)
    assert second == meta_schedule.Recorded(workload=1, latency_s=None, repeats=1, lost=False)


def test_it_names_a_line_that_can_not_be_read(tmp_path: Path) -> None:
    write(tmp_path, f"{LINE}\nrubbish\n{LINE}\n")
    with pytest.raises(ValueError, match="line 2 is no tuning record"):
        meta_schedule.recorded(tmp_path)


@pytest.mark.parametrize("lost", [0, 2])
def test_it_fills_the_place_of_lost_records(lost: int, tmp_path: Path) -> None:
    write(tmp_path, f"{LINE}\n")
    meta_schedule.pad(tmp_path, lost)
    assert [line.lost for line in meta_schedule.recorded(tmp_path)] == [False] + [True] * lost
    assert all(line.latency_s is None for line in meta_schedule.recorded(tmp_path)[1:])


def test_it_gives_each_appended_record_with_its_workload(tmp_path: Path) -> None:
    (tmp_path / meta_schedule.WORKLOADS).write_text('["12","first"]\n["13","second"]\n')
    path = write(tmp_path, f"{LINE}\n")
    text = meta_schedule.RecordText(tmp_path)
    with path.open("a") as file:
        file.write(f"{FAILED}\n{LINE}\n")
    assert json.loads(text.appended()) == [["13", "second"], json.loads(FAILED)[1]]
    assert json.loads(text.appended()) == [["12", "first"], json.loads(LINE)[1]]


def test_it_gives_the_latest_records_with_their_workloads(tmp_path: Path) -> None:
    (tmp_path / meta_schedule.WORKLOADS).write_text('["12","first"]\n["13","second"]\n')
    write(tmp_path, f"{LINE}\n{FAILED}\n")
    assert [json.loads(text)[0] for text in meta_schedule.latest(tmp_path, 1)] == [["13", "second"]]
    assert len(meta_schedule.latest(tmp_path, 2)) == 2
    assert meta_schedule.latest(tmp_path, 0) == []


def test_it_gives_entries_of_a_file_that_grows(tmp_path: Path) -> None:
    (tmp_path / meta_schedule.WORKLOADS).write_text('["12","first"]\n["13","second"]\n')
    write(tmp_path, f"{LINE}\n{meta_schedule.LOST}\n{FAILED}\n{LINE}")
    found = list(meta_schedule.entries(tmp_path, 9))
    assert [entry and json.loads(entry[0]) for entry in found] == [["12", "first"], None, ["13", "second"]]
    assert [entry and json.loads(entry[1]) for entry in found] == [json.loads(LINE)[1], None, json.loads(FAILED)[1]]
    assert list(meta_schedule.entries(tmp_path, 1)) == found[:1]
