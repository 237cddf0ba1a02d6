"""Records of engines with one log, of one run and of several."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from django.test import Client

from tests.world import claimed, extracted, make_run, make_user, measured_run, trial, write_record_files
from tuning.engines.wire.legacy import RECORDS as LINES
from tuning.logs.meta_schedule import RECORDS, WORKLOADS
from tuning.models import Run
from tuning.reads import downloads
from tuning.reads.downloads.merged import package_name
from tuning.validation import Conflict, Invalid
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


def line(name: str) -> str:
    return json.dumps({"input": ["llvm", name, [], {}], "config": {}, "result": [[1e-3], 0, 1, 1], "version": 0.2})


def tuned(*latencies: float | None, engine: str = "autotvm", name: str = "a", **values: Any) -> Run:
    """A run of one task whose n-th trial has the record `name-n`, with its log."""
    run = claimed(make_run(engine=engine, **values))
    records = [line(f"{name}-{number}") for number in range(1, len(latencies) + 1)]
    events = [
        trial(latency_s=latency_s, record=text) if latency_s else trial(latency_s=None)
        for latency_s, text in zip(latencies, records, strict=True)
    ]
    Recorder(run).record([extracted(1), *events])
    run.work_dir.mkdir(parents=True)
    (run.work_dir / LINES).write_text("".join(f"{text}\n" for text in records))
    run.refresh_from_db()
    run.move("running", to="finished")
    return run


def text(file: downloads.File) -> str:
    return b"".join(file.pieces).decode()


def names(content: str) -> list[str]:
    return [json.loads(each)["input"][1] for each in content.splitlines()]


def test_the_log_of_a_run_is_downloaded_as_the_engine_wrote_it() -> None:
    run = tuned(2e-3, None, 1e-3)
    file = downloads.record_file(run, "native", "all")
    assert (file.name, text(file)) == ("all-records.json", (run.work_dir / LINES).read_text())
    assert names(text(downloads.record_file(run, "native", "best", k=1))) == ["a-3"]


def test_lost_records_and_trials_that_are_not_recorded_yet_are_left_out() -> None:
    run = tuned(2e-3, 1e-3, 3e-3)
    first, _, third = (run.work_dir / LINES).read_text().splitlines()
    (run.work_dir / LINES).write_text(f"{first}\n# lost\n{third}\n{line('later')}\n{{torn")
    assert names(text(downloads.record_file(run, "native", "all"))) == ["a-1", "a-3"]


def test_json_lines_have_the_record_as_an_object() -> None:
    task, record = text(downloads.record_file(tuned(1e-3), "jsonl", "all")).splitlines()
    assert json.loads(task)["name"] == "fused_matmul0"
    assert json.loads(record)["record"] == json.loads(line("a-1"))


def test_the_best_of_several_runs_are_those_of_each_workload_whichever_run_has_them() -> None:
    slow, fast = tuned(3e-3, 5e-3), tuned(4e-3, 1e-3, name="b")
    file = downloads.merged_file([slow, fast], "native", "best", k=2)
    assert (file.name, names(text(file))) == ("best-2-records.json", ["b-2", "a-1"])


def test_other_targets_have_best_records_of_their_own() -> None:
    here, there = tuned(3e-3), tuned(1e-3, name="b")
    there.target = {"kind": "cuda"}
    there.save()
    assert sorted(names(text(downloads.merged_file([here, there], "native", "best", k=1)))) == ["a-1", "b-1"]


def test_all_records_come_run_by_run() -> None:
    runs = [tuned(3e-3, None), tuned(1e-3, name="b")]
    assert names(text(downloads.merged_file(runs, "native", "all"))) == ["a-1", "a-2", "b-1"]


def test_databases_are_merged_with_workloads_numbered_anew() -> None:
    runs = [measured_run(((0, 2e-3), (1, 3e-3)), device=device) for device in ("cpu", "cuda:0")]
    for run in runs:
        write_record_files(run)
    pieces = b"".join(downloads.merged_file(runs, "native", "all").pieces)
    with zipfile.ZipFile(io.BytesIO(pieces)) as archive:
        assert len(archive.read(WORKLOADS).splitlines()) == 2
        assert [json.loads(each)[0] for each in archive.read(RECORDS).splitlines()] == [0, 1, 0, 1]


def test_a_package_has_a_log_for_each_target_with_the_best_record_of_each_workload() -> None:
    here, there = tuned(3e-3, 1e-3), tuned(2e-3, name="b")
    there.target = {"kind": "llvm", "device": "arm_cpu"}
    there.save()
    pieces = b"".join(downloads.merged_file([here, there], "tophub", "best").pieces)
    with zipfile.ZipFile(io.BytesIO(pieces)) as archive:
        assert {name: names(archive.read(name).decode()) for name in archive.namelist()} == {
            "llvm_v0.01.log": ["a-2"],
            "arm_cpu_v0.01.log": ["b-1"],
        }


@pytest.mark.parametrize(
    ("target", "name"), [({"kind": "cuda"}, "cuda"), ({"kind": "ext_dev", "device": "vta"}, "vta"), (None, "target")]
)
def test_a_package_is_named_after_its_target(target: Any, name: str) -> None:
    assert package_name(target) == name


@pytest.mark.parametrize(
    ("values", "field"),
    [({"form": "tophub", "which": "all"}, "format"), ({"form": "native", "which": "all", "k": 2}, "k")],
)
def test_it_refuses_what_makes_no_sense(values: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        downloads.merged_file([tuned(1e-3)], **values)
    assert list(refused.value.fields) == [field]


def test_records_of_different_engines_are_not_merged() -> None:
    with pytest.raises(Invalid, match="auto_scheduler and autotvm"):
        downloads.merged_file([tuned(1e-3), tuned(1e-3, engine="auto_scheduler")], "native", "all")


def test_it_says_that_there_are_none() -> None:
    with pytest.raises(Conflict, match="no trial has been valid"):
        downloads.merged_file([tuned(None)], "native", "best")


def test_the_api_sends_a_merged_file(client: Client) -> None:
    client.force_login(make_user("viewer"))
    runs = [tuned(3e-3), tuned(1e-3, name="b")]
    answer: Any = client.get(f"/api/v1/records?runs={runs[0].pk},{runs[1].pk}&k=1")
    assert answer.status_code == 200
    assert f"mlp_znver4_runs-{runs[0].pk}-{runs[1].pk}_best-1-records.json" in answer.headers["Content-Disposition"]
    assert names(b"".join(answer.streaming_content).decode()) == ["b-1"]
    assert client.get("/api/v1/records?runs=999").status_code == 422
    assert client.get(f"/api/v1/records?runs={runs[0].pk}&format=tophub&k=3").json()["error"]["fields"].keys() == {
        "format"
    }


def test_the_comparison_offers_the_merged_records(client: Client) -> None:
    client.force_login(make_user("viewer"))
    runs = [tuned(3e-3), tuned(1e-3, name="b")]
    page = client.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}").content.decode()
    assert f"/api/v1/records?runs={runs[0].pk},{runs[1].pk}&amp;which=best&amp;k=1" in page
    assert "format=tophub" in page
    other = tuned(1e-3, engine="auto_scheduler")
    page = client.get(f"/compare/?runs={runs[0].pk},{other.pk}").content.decode()
    assert "/api/v1/records?" not in page
    assert "can’t share a file" in page
