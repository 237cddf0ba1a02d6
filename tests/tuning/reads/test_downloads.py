"""Files of a run: their content, and the memory it takes to generate them."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any, get_args

import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.world import (
    TARGET,
    claimed,
    make_run,
    make_tasks,
    measured_by,
    measured_run,
    record_trials,
    workload_text,
    write_record_files,
)
from tuning.logs.meta_schedule import LOST, RECORDS, WORKLOADS
from tuning.models import Run, Trial
from tuning.reads import downloads
from tuning.reads.downloads import records, tables
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db
LATENCIES = [(0, 2e-3), (1, 3e-3), (0, None), (0, 1e-3), (1, 4e-3)]


@pytest.fixture
def run() -> Run:
    run = measured_run(LATENCIES)
    write_record_files(run)
    return run


def content(file: downloads.File) -> bytes:
    return b"".join(file.pieces)


def native(run: Run, which: Any = "all", **values: Any) -> list[tuple[Any, float]]:
    """The workload and latency of each record in the zip."""
    with zipfile.ZipFile(io.BytesIO(content(downloads.record_file(run, "native", which, **values)))) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == [RECORDS, WORKLOADS]
        workloads = [json.loads(line) for line in archive.read(WORKLOADS).decode().splitlines()]
        lines = [json.loads(line) for line in archive.read(RECORDS).decode().splitlines()]
    assert {index for index, _ in lines} == set(range(len(workloads))), (
        "every workload has records, and every record a workload"
    )
    return [(workloads[index][0], run_secs[0]) for index, (_, run_secs, _, _) in lines]


def lines(run: Run, which: Any = "all", **values: Any) -> list[dict[str, Any]]:
    text = content(downloads.record_file(run, "jsonl", which, **values)).decode()
    return [json.loads(line) for line in text.splitlines()]


def test_it_has_the_best_records_of_each_task(run: Run) -> None:
    assert native(run, "best") == [("0", 1e-3), ("0", 2e-3), ("1", 3e-3), ("1", 4e-3)]
    assert native(run, "best", k=1) == [("0", 1e-3), ("1", 3e-3)]
    assert native(run, "best", k=1, task=1) == [("1", 3e-3)]


def test_the_best_records_need_no_record_file(run: Run) -> None:
    (run.work_dir / RECORDS).unlink()
    assert len(native(run, "best")) == 4
    with pytest.raises(Conflict, match="record files are missing"):
        downloads.record_file(run, "native", "all")


def test_it_has_all_records_including_failed_ones(run: Run) -> None:
    assert native(run) == [("0", 2e-3), ("1", 3e-3), ("0", 1e10), ("0", 1e-3), ("1", 4e-3)]
    assert native(run, task=1) == [("1", 3e-3), ("1", 4e-3)]


@pytest.mark.parametrize("tail", ["[0,[[[", "[0,[[[],[]],[0.5],null,null]]\n", "[0,[[[],[]],[0.5],null,null]]"])
def test_it_leaves_out_trials_that_are_not_recorded_yet(run: Run, tail: str) -> None:
    """The last line, torn or complete, is of a trial that isn't recorded yet."""
    expected = native(run)
    with (run.work_dir / RECORDS).open("a") as file:
        file.write(tail)
    assert native(run) == expected


def test_it_leaves_out_a_torn_line(run: Run) -> None:
    path = run.work_dir / RECORDS
    path.write_text(path.read_text()[:-9])
    assert native(run) == [("0", 2e-3), ("1", 3e-3), ("0", 1e10), ("0", 1e-3)]


def test_it_leaves_out_placeholders_of_lost_records(run: Run) -> None:
    path = run.work_dir / RECORDS
    first, _, _, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, LOST, LOST, *rest]) + "\n")
    assert native(run) == [("0", 2e-3), ("0", 1e-3), ("1", 4e-3)]
    assert [line["trial"] for line in lines(run) if "trial" in line] == [1, 4, 5]


def test_json_lines_have_each_task_once_before_its_records(run: Run) -> None:
    first, record, *_ = found = lines(run)
    assert first == {
        "task": 0,
        "name": "fused_matmul0",
        "weight": 1,
        "flop": 1e6,
        "workload_hash": f"{0:016x}",
        "workload": json.loads(workload_text(0)),
    }
    assert record.keys() == {"task", "trial", "latency_s", "error", "record"}
    assert [(line["task"], line.get("trial"), line.get("latency_s"), line.get("error")) for line in found] == [
        (0, None, None, None),
        (0, 1, 2e-3, None),
        (1, None, None, None),
        (1, 2, 3e-3, None),
        (0, 3, None, "run"),
        (0, 4, 1e-3, None),
        (1, 5, 4e-3, None),
    ]
    assert record["record"][1] == [2e-3]
    assert [line["trial"] for line in lines(run, "best", k=1) if "trial" in line] == [4, 2]


def test_csv_has_units_in_its_headers(run: Run) -> None:
    file = downloads.trial_file(run, "csv")
    assert file.name == "trials.csv"
    text = content(file)
    assert text.splitlines()[0].decode().replace('"', "").split(",") == list(downloads.COLUMNS)
    table = pyarrow.csv.read_csv(io.BytesIO(text)).to_pydict()
    assert table["number"] == [1, 2, 3, 4, 5]
    assert table["latency_s"] == [2e-3, 3e-3, None, 1e-3, 4e-3]
    assert table["error"] == ["", "", "run", "", ""]
    assert table["improved"] == [True, True, False, True, False]
    assert table["task_name"] == [f"fused_matmul{task}" for task in table["task"]]


def test_tables_say_which_machine_measured(run: Run) -> None:
    measured_by(run, "-lab", number__gt=1)
    table = pyarrow.csv.read_csv(io.BytesIO(content(downloads.trial_file(run, "csv"))))
    assert table["machine"].to_pylist() == ["", *["'-lab"] * 4]
    table = pyarrow.parquet.read_table(io.BytesIO(content(downloads.trial_file(run, "parquet"))))
    assert table["machine"].to_pylist() == [None, *["-lab"] * 4]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@a", "\tb"])
def test_csv_has_no_formulas(run: Run, name: str) -> None:
    """Spreadsheets would run them."""
    run.tasks.filter(index=1).update(name=name)
    names = [
        pyarrow.csv.read_csv(io.BytesIO(content(downloads.trial_file(run, "csv", task=1))))["task_name"].to_pylist()
    ]
    assert names == [[f"'{name}"] * 2]
    table = pyarrow.parquet.read_table(io.BytesIO(content(downloads.trial_file(run, "parquet", task=1))))
    assert table["task_name"].to_pylist() == [name] * 2


def test_parquet_has_the_run_in_its_metadata(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_ROWS", 2)
    file = pyarrow.parquet.ParquetFile(io.BytesIO(content(downloads.trial_file(run, "parquet"))))
    assert file.metadata.num_row_groups == 3
    metadata = file.schema_arrow.metadata
    assert (metadata[b"run"], metadata[b"network"]) == (str(run.pk).encode(), b"mlp")
    assert json.loads(metadata[b"target"]) == TARGET
    table = file.read().to_pydict()
    shown = run.trials.order_by("number").values_list("number", "task__index", "latency_s", "error_kind", "at_s", "nth")
    columns = ("number", "task", "latency_s", "error", "at_s", "nth")
    assert list(zip(*(table[column] for column in columns), strict=True)) == list(shown)


def test_it_has_the_trials_of_one_task(run: Run) -> None:
    table = pyarrow.csv.read_csv(io.BytesIO(content(downloads.trial_file(run, "csv", task=1)))).to_pydict()
    assert table["number"] == [2, 5]


def test_it_returns_the_log_so_far(run: Run) -> None:
    run.console_log.write_bytes(b"x" * 300_000)
    file = downloads.console_file(run)
    with run.console_log.open("ab") as log:
        log.write(b"more")
    assert file.size == 300_000
    assert content(file) == b"x" * 300_000


def test_it_refuses_files_without_content() -> None:
    run = claimed(make_run())
    for which in get_args(downloads.Which):
        with pytest.raises(Conflict, match="There are no records yet"):
            downloads.record_file(run, "native", which)
    with pytest.raises(Conflict, match="No trial has ended"):
        downloads.trial_file(run, "csv")
    with pytest.raises(Conflict, match="Nothing has been printed"):
        downloads.console_file(run)
    run.work_dir.mkdir(parents=True)
    run.console_log.touch()
    with pytest.raises(Conflict, match="Nothing has been printed"):
        downloads.console_file(run)


def test_failed_trials_have_records_but_no_best_records() -> None:
    run = measured_run([(0, None)] * 3)
    write_record_files(run)
    with pytest.raises(Conflict, match="no trial has been valid"):
        downloads.record_file(run, "native", "best")
    assert len(native(run)) == 3


def test_it_names_the_invalid_parameter(run: Run) -> None:
    with pytest.raises(Invalid) as invalid:
        downloads.record_file(run, "native", "all", k=3)
    assert invalid.value.fields.keys() == {"k"}
    with pytest.raises(Invalid) as invalid:
        downloads.trial_file(run, "csv", task=2)
    assert invalid.value.fields == {"task": "The run has no task 2."}


TRIALS = 20_000
LINE_BYTES = 1500


@pytest.fixture
def large() -> Run:
    """A run with a record file of 30 MB."""
    run = claimed(make_run(trials_budget=TRIALS))
    task, _ = make_tasks(run)
    record_trials(run, [(0, 1.0)])
    values = {"run": run, "task": task, "latency_s": 1.0, "at_s": 1.0, "lod": 0, "improved": False}
    Trial.objects.bulk_create(
        [Trial(number=number, nth=number, **values) for number in range(2, TRIALS + 1)], batch_size=5000
    )
    Run.objects.filter(pk=run.pk).update(trials_done=TRIALS)
    run.refresh_from_db()
    write_record_files(run)
    path = run.work_dir / RECORDS
    path.write_text(path.read_text().replace('"GetSBlock",', '"GetSBlock",' + " " * LINE_BYTES))
    return run


@pytest.mark.parametrize("form", ["native", "jsonl"])
def test_memory_does_not_depend_on_the_size_of_the_run(
    large: Run, form: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(records, "PIECE_ROWS", 1000)
    path = tmp_path / "records"
    tracemalloc.start()
    try:
        with path.open("wb") as file:
            file.writelines(downloads.record_file(large, form, "all").pieces)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines_of(path, form) == (TRIALS if form == "native" else TRIALS + 1)  # The first line describes the task.
    assert peak < (large.work_dir / RECORDS).stat().st_size / 8


def lines_of(path: Path, form: Any) -> int:
    if form == "jsonl":
        return path.read_bytes().count(b"\n")
    with zipfile.ZipFile(path) as archive:
        return archive.read(RECORDS).count(b"\n")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_is_sent_while_it_is_read(
    large: Run, form: Any, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(tables, "PIECE_ROWS", 1000)
    pieces = downloads.trial_file(large, form).pieces
    with django_assert_num_queries(3):  # The network's name, the machines, and the first 1000 trials.
        first = next(pieces)
    with django_assert_num_queries(TRIALS // 1000):
        rest = b"".join(pieces)
    assert 0 < len(first) < len(rest)
