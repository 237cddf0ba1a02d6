"""The library in the formats of stock tools, and back."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from tests.tuning.reads.test_merging import tuned
from tests.world import TARGET, first_project, make_user, measured_run, record_text, task_infos
from tuning.actions import projects
from tuning.logs.meta_schedule import RECORDS, WORKLOADS
from tuning.models import Record, Run, fingerprint
from tuning.reads.downloads import Exported, exportable
from tuning.reads.library import LibraryFilter, known_records, tvm
from tuning.validation import Conflict

pytestmark = pytest.mark.django_db
CUDA = {"kind": "cuda", "arch": "sm_80"}
FIRST, SECOND = (info.workload_hash for info in task_infos(2))
ALL = LibraryFilter(None)


def ended(**values: Any) -> Run:
    run = measured_run(**({"versions": {"apache-tvm": tvm()}} | values))
    run.move("running", to="finished")
    return run


def on_cuda(**values: Any) -> Run:
    run = ended(**values)
    Run.objects.filter(pk=run.pk).update(target=CUDA, target_fingerprint=fingerprint(CUDA))
    return run


def unpacked(exported: Exported) -> tuple[list[str], list[str]]:
    """The lines of workloads and records."""
    with zipfile.ZipFile(io.BytesIO(b"".join(exported.file().pieces))) as files:
        return files.read(WORKLOADS).decode().splitlines(), files.read(RECORDS).decode().splitlines()


def latencies(records: list[str]) -> list[tuple[int, float]]:
    """The workload and latency in seconds of each record."""
    return [(line[0], line[1][1][0]) for line in map(json.loads, records)]


def test_it_has_the_best_record_of_each_workload_and_target() -> None:
    ended()
    ended(latencies=[(0, 9e-3), (0, 0.5e-3), (1, 9e-3)])
    on_cuda(latencies=[(1, 7e-3)])
    workloads, records = unpacked(Exported.of(ALL, "meta_schedule"))
    assert [json.loads(line)[0] for line in workloads] == ["0", "1"]
    assert sorted(latencies(records)) == [(0, 0.5e-3), (1, 3e-3), (1, 7e-3)]
    first = known_records([FIRST], TARGET, first_project())[FIRST][0]
    assert json.loads(first.text)[1] in [json.loads(line)[1] for line in records], "what compilations use"


def test_filters_are_those_of_best_records() -> None:
    ended()
    on_cuda(latencies=[(1, 7e-3)])
    cuda = LibraryFilter(None, target=fingerprint(CUDA))
    assert latencies(unpacked(Exported.of(cuda, "meta_schedule"))[1]) == [(0, 7e-3)]
    named = LibraryFilter(None, q="matmul0")
    assert latencies(unpacked(Exported.of(named, "meta_schedule"))[1]) == [(0, 1e-3)]


def test_what_may_not_open_in_stock_tvm_is_left_out() -> None:
    ended(latencies=[(0, 5e-3)])
    ended(versions={"apache-tvm": "0.1.0"}, latencies=[(0, 1e-3), (1, 1e-3)])
    ended(versions={}, latencies=[(1, 1e-3)])
    assert latencies(unpacked(Exported.of(ALL, "meta_schedule"))[1]) == [(0, 5e-3)]


@pytest.mark.parametrize(
    "values", [{"synthetic": True}, {"versions": {"apache-tvm": "0.1.0"}}, {"engine": "autotvm"}], ids=str
)
def test_without_records_there_is_nothing_to_export(values: dict[str, Any]) -> None:
    ended(**values)
    with pytest.raises(Conflict, match="No record"):
        Exported.of(ALL, "meta_schedule")


def test_records_without_their_workload_are_left_out() -> None:
    run = ended()
    run.tasks.filter(workload_hash=FIRST).update(workload_hash="unknown-1")
    assert latencies(unpacked(Exported.of(ALL, "meta_schedule"))[1]) == [(0, 3e-3)]


def test_a_record_that_is_deleted_meanwhile_is_left_out() -> None:
    ended()
    workloads, records = Exported.of(ALL, "meta_schedule").database().values()
    assert len(b"".join(workloads).splitlines()) == 2
    Record.objects.filter(task__workload_hash=FIRST).delete()
    assert latencies(b"".join(records).decode().splitlines()) == [(1, 3e-3)]


def test_older_engines_have_a_log() -> None:
    tuned(3e-3, 5e-3), tuned(4e-3, 1e-3, name="b")
    log = b"".join(Exported.of(ALL, "autotvm").file().pieces).decode()
    assert [json.loads(line)["input"][1] for line in log.splitlines()] == ["b-2"]
    assert exportable(ALL) == [("autotvm", "AutoTVM")]


def test_it_has_only_what_the_user_may_see(client: Client) -> None:
    ended()
    theirs = projects.create("theirs")
    ended(project=theirs, latencies=[(0, 0.1e-3)])
    client.force_login(make_user("viewer"))
    answer = client.get("/api/v1/records/library")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="library_database.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.getvalue())) as files:
        assert latencies(files.read(RECORDS).decode().splitlines()) == [(0, 1e-3), (1, 3e-3)]
    again = client.get("/api/v1/records/library", headers={"if-none-match": answer.headers["ETag"]})
    assert again.status_code == 304
    assert client.get("/api/v1/records/library?engine=autotvm").status_code == 409
    assert latencies(unpacked(Exported.of(ALL, "meta_schedule", theirs))[1]) == [(0, 0.1e-3)]


def test_the_page_offers_what_it_shows(client: Client) -> None:
    on_cuda()
    client.force_login(make_user("operator"))
    page = client.get("/library/", {"target": fingerprint(CUDA)}).content.decode()
    url = f"/api/v1/records/library?engine=meta_schedule&amp;target={fingerprint(CUDA)}"
    assert url in page
    assert 'data-role="import-database"' in page
    assert client.get(url.replace("&amp;", "&")).status_code == 200


def command(*args: str, capsys: Any) -> str:
    call_command("export_library", *args)
    return str(capsys.readouterr().out)


def test_the_command_writes_both_files_or_a_zip(tmp_path: Path, capsys: Any) -> None:
    ended()
    said = command(str(tmp_path / "library"), "--target", "znver4", capsys=capsys)
    assert said.startswith("Wrote 2 records to ")
    assert {path.name for path in (tmp_path / "library").iterdir()} == {WORKLOADS, RECORDS}
    told = json.loads(command(str(tmp_path / "library.zip"), "--json", capsys=capsys))
    assert (told["records"], told["engine"]) == (2, "meta_schedule")
    with zipfile.ZipFile(tmp_path / "library.zip") as files:
        assert files.read(RECORDS) == (tmp_path / "library" / RECORDS).read_bytes()


def test_the_command_refuses_what_it_cannot_do(tmp_path: Path, capsys: Any) -> None:
    ended()
    out = str(tmp_path / "a.zip")
    for wrong, status in (
        (["--target", "skylake"], 2),
        (["--project", "nothing"], 2),
        (["--engine", "autotvm"], 1),
        (["--search", "nothing"], 1),
    ):
        with pytest.raises(CommandError) as refused:
            command(out, *wrong, capsys=capsys)
        assert refused.value.returncode == status, wrong
    assert list(tmp_path.iterdir()) == []
    command(out, capsys=capsys)
    with pytest.raises(CommandError, match="exists already"):
        command(out, capsys=capsys)
    command(out, "--force", capsys=capsys)


def test_a_record_is_exported_as_it_was_kept() -> None:
    ended(latencies=[(0, 1e-3)])
    (workload,), (record,) = unpacked(Exported.of(ALL, "meta_schedule"))
    assert f"[{workload},{record.removeprefix('[0,')}" == record_text(0, 1e-3)
