"""Logs become runs like all others, completely or not at all."""

from __future__ import annotations

import gzip
import json
import os
import threading
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.replacing import WAYS, assert_untouched, canary_in, kernel, replace
from tests.world import make_network
from tuning.actions import sweeping
from tuning.actions.incoming import imports
from tuning.engines.wire.options import KEEP_BEST
from tuning.models import BadLine, Import, Record, Run, Tally
from tuning.models.lifecycle import LEASE
from tuning.reads import downloads
from tuning.validation import Invalid
from tuning.work import importing
from tuning.work.importing import job
from tuning.work.importing.run import ImportedRun

__all__ = ("kernel",)
pytestmark = pytest.mark.django_db
SHARED = Path(os.environ.get("TUNEBOARD_SHARED_LOGS", Path(__file__).parents[4] / "shared/data/logs"))
NEVER = threading.Event()
T0 = 1_600_000_000


@pytest.fixture(autouse=True)
def own_var(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path / "var"


def ansor(latency_s: float | None, at: int = T0, *, key: str = "a", target: str = "llvm", error: int = 2) -> str:
    """A record of auto_scheduler v0.6."""
    workload = json.dumps([key * 32, [8, 8], [8, 8]])
    task = [workload, target, [4, 64, 64, 0, 0, 0, 0, 0], "", 1, []]
    costs, number = ([1e10], error) if latency_s is None else ([latency_s], 0)
    return json.dumps({"i": [task, [[], []]], "r": [costs, number, 1.5, at], "v": "v0.6"})


def written(folder: Path, *lines: str, name: str = "log.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def run_import(*paths: Path, **options: Any) -> Import:
    source, files = imports.start_here(paths, options)
    assert source.claim()
    importing.carry_out(source, files, NEVER)
    source.refresh_from_db()
    return source


def only_run(source: Import) -> Run:
    (run,) = source.runs.all()
    return run


def test_a_log_becomes_a_run_with_its_tasks_trials_and_best_records(tmp_path: Path) -> None:
    lines = [ansor(2e-3), ansor(None, T0 + 2), ansor(1e-3, T0 + 1, key="b"), ansor(1e-3, T0 + 5)]
    source = run_import(written(tmp_path, *lines))
    run = only_run(source)
    assert (source.status, source.records, source.bad_lines) == ("finished", 4, 0)
    assert (run.status, run.origin, run.engine, run.name) == ("finished", "imported", "auto_scheduler", "log")
    assert (run.trials_done, run.trials_failed, run.tasks_total, run.tasks_measured) == (4, 1, 2, 2)
    assert list(run.trials.values_list("task__index", "latency_s", "error_kind", "improved")) == [
        (0, 2e-3, None, True),
        (0, None, "build", False),
        (1, 1e-3, None, True),
        (0, 1e-3, None, True),
    ]
    assert [record.trial for record in Record.objects.filter(task__index=0)] == [4, 1]
    assert json.loads(Record.objects.get(trial=4).text) == json.loads(lines[3])
    assert (run.work_dir / "records.json").read_text().splitlines() == lines


def test_what_the_log_does_not_say_is_not_recorded(tmp_path: Path) -> None:
    run = only_run(run_import(written(tmp_path, ansor(1e-3))))
    assert (run.network, run.trials_budget, run.device, run.time_limit_s) == (None, None, "", None)
    (task,) = run.tasks.all()
    assert (task.weight, task.flop) == (None, None)
    assert run.estimated_latency_s is None
    shown = run.to_full_dict()
    assert (shown["network"], shown["network_options"], shown["tasks"][0]["weight"]) == (None, {}, None)
    assert [run.can_resume, run.can_extend, run.can_stop] == [False] * 3


def test_seconds_leave_out_what_lies_between_sessions_and_never_go_back(tmp_path: Path) -> None:
    day = 86_400
    times = [T0, T0 + 10, T0 + 8, T0 + day, T0 + day + 4]
    run = only_run(run_import(written(tmp_path, *(ansor(1e-3 + at * 1e-15, at) for at in times))))
    assert list(run.trials.values_list("at_s", flat=True)) == [0, 10, 10, 10, 14]
    assert run.elapsed_s == 14
    assert [session["trial"] for session in run.sessions] == [1, 4]
    assert run.started_at is not None
    assert run.finished_at is not None
    assert (run.finished_at - run.started_at).total_seconds() == day + 4


def test_each_target_is_a_run(tmp_path: Path) -> None:
    lines = [ansor(1e-3), ansor(2e-3, target="cuda"), ansor(3e-3), ansor(None, target="cuda")]
    source = run_import(written(tmp_path, *lines))
    first, second = source.runs.order_by("pk")
    assert (first.target["kind"], first.trials_done, first.trials_failed) == ("llvm", 2, 0)
    assert (second.target["kind"], second.trials_done, second.trials_failed) == ("cuda", 2, 1)
    assert (second.work_dir / "records.json").read_text().splitlines() == [lines[1], lines[3]]


def test_bad_lines_are_listed_and_everything_around_them_is_kept(tmp_path: Path) -> None:
    source = run_import(written(tmp_path, ansor(1e-3), "# a comment", "", '{"i": [', ansor(2e-3), ansor(3e-3)[:40]))
    run = only_run(source)
    assert (run.trials_done, run.bad_lines, source.bad_lines, source.lines) == (2, 2, 2, 6)
    assert [(line.file, line.line) for line in BadLine.objects.all()] == [("log.json", 4), ("log.json", 6)]
    assert all(line.reason for line in BadLine.objects.all())


def test_if_everything_failed_the_run_says_so(tmp_path: Path) -> None:
    run = only_run(run_import(written(tmp_path, *(ansor(None) for _ in range(20)))))
    assert (run.status, run.trials_failed) == ("failed", 20)
    assert run.error is not None
    assert "None of the 20 trials was valid" in run.error
    (error,) = run.errors.all()
    assert (error.kind, error.count) == ("build", 20)
    assert error.text.startswith("COMPILE_HOST: ")
    assert error.text.endswith("No error text was recorded.")
    assert not Record.objects.exists()


def test_the_same_records_are_recognized_whatever_the_file_is_called(tmp_path: Path) -> None:
    run = only_run(run_import(written(tmp_path, ansor(1e-3), ansor(2e-3))))
    copy = written(tmp_path, "# copied", ansor(1e-3), "", ansor(2e-3), name="copy.json")
    again = run_import(copy)
    assert [(result["run"], result["known"]) for result in again.results] == [(run.pk, True)]
    assert Run.objects.count() == 1
    wanted = run_import(copy, again=True)
    assert only_run(wanted).trials_done == 2
    assert Run.objects.count() == 2


def test_weights_make_an_estimate(tmp_path: Path) -> None:
    path = written(tmp_path, ansor(1e-3), ansor(3e-3, key="b"))
    first, second = only_run(run_import(path)).tasks.all()
    weights = {first.workload_hash: 2, second.name: 3, "nothing": 1}
    source = run_import(path, weights=weights, again=True)
    run = only_run(source)
    assert run.estimated_latency_s == pytest.approx(2 * 1e-3 + 3 * 3e-3)
    assert run.estimates[-1][0] == 2
    assert ["nothing" in remark["text"] for remark in source.remarks] == [True]


def test_a_network_is_the_projects_own_or_known_by_name_only(tmp_path: Path) -> None:
    own = make_network("mine")
    assert only_run(run_import(written(tmp_path, ansor(1e-3)), network="mine")).network == own
    named = only_run(run_import(written(tmp_path, ansor(2e-3)), network="resnet-18")).network
    assert named is not None
    assert (named.kind, named.can_tune, named.is_uploaded) == ("named", False, False)
    assert only_run(run_import(written(tmp_path, ansor(3e-3)), network="resnet-18")).network == named


def test_only_the_best_are_rows(tmp_path: Path) -> None:
    latencies = [(number * 7 % 31 + 1) * 1e-4 for number in range(31)]
    run = only_run(run_import(written(tmp_path, *map(ansor, latencies))))
    kept = list(Record.objects.filter(task__run=run).values_list("latency_s", flat=True))
    assert kept == pytest.approx(sorted(latencies)[:KEEP_BEST])


def test_metrics_do_not_count_what_was_measured_elsewhere(tmp_path: Path) -> None:
    run_import(written(tmp_path, ansor(1e-3), ansor(None)))
    assert not Tally.objects.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"\x00\x01\x02" * 99, "binary"), (b"hello\n", "no record"), (b"\x1f\x8bbroken", "broken")],
)
def test_without_a_record_it_fails_and_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "x.log").write_bytes(content)
    source = run_import(tmp_path / "x.log")
    assert (source.status, source.results) == ("failed", [])
    assert source.error is not None
    assert "x.log" in source.error
    assert [reason in skipped["reason"] for skipped in source.skipped] == [True]
    assert not Run.everything.exists()


def test_too_many_lines_are_refused_and_nothing_is_left(tmp_path: Path, settings: Any) -> None:
    settings.IMPORT_LINES = 3
    source = run_import(written(tmp_path, *(ansor(1e-3) for _ in range(4))))
    assert source.status == "failed"
    assert source.error is not None
    assert "TUNEBOARD_IMPORT_LINES" in source.error
    assert not Run.objects.exists()


def test_a_failure_on_the_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(ImportedRun, "flush", fail)
    source, files = imports.start_here([written(tmp_path, ansor(1e-3))], {})
    assert source.claim()
    with pytest.raises(RuntimeError):
        importing.carry_out(source, files, NEVER)
    source.refresh_from_db()
    assert (source.status, source.results) == ("failed", [])
    assert_gone()


def test_a_cancelled_import_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "RENEW_S", 0.0)
    source, files = imports.start_here([written(tmp_path, ansor(1e-3))], {})
    assert source.claim()
    flush = ImportedRun.take

    def take(run: ImportedRun, line: Any) -> None:
        imports.cancel(Import.objects.get(pk=source.pk))
        flush(run, line)

    monkeypatch.setattr(ImportedRun, "take", take)
    assert importing.carry_out(source, files, NEVER) == "cancelled"
    assert_gone()


NOTHING = {
    "blank lines": b"\n" * 3_000_000,
    "blank lines of Windows": b"\r\n" * 1_500_000,
    "comments": b"#\n" * 400_000,
    "brackets": b"[\n" * 300_000,
    "blank lines and comments": b"\n\n\n#\n" * 300_000,
    "blank lines with spaces": (b" " * 100 + b"\n") * 30_000,
}
"""Files that take time to read before anybody knows what they are, and that have many lines in few packed bytes."""


def packed(name: str, folder: Path, *, begins: bytes = b"") -> Path:
    path = folder / "log.json.gz"
    path.write_bytes(gzip.compress(begins + NOTHING[name], mtime=0))
    return path


@pytest.mark.parametrize("name", NOTHING)
def test_the_lease_is_renewed_while_nothing_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "RENEW_S", 0.0)
    renewed: list[str] = []
    renew = Import.renew

    def count(source: Import, **values: Any) -> bool:
        renewed.append(source.status)
        return renew(source, **values)

    monkeypatch.setattr(Import, "renew", count)
    assert run_import(packed(name, tmp_path)).status == "failed"
    assert len(renewed) >= 2, "while its format was asked for"
    renewed.clear()
    begins = f"{ansor(1e-3)}\n".encode()
    assert run_import(packed(name, tmp_path, begins=begins)).status == "finished"
    assert len(renewed) >= 6, "while its format was asked for, its tasks were read, and its trials"


@pytest.mark.parametrize("name", NOTHING)
def test_it_is_cancelled_while_nothing_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "RENEW_S", 0.0)
    source, files = imports.start_here([packed(name, tmp_path)], {})
    assert source.claim()
    imports.cancel(Import.objects.get(pk=source.pk))
    assert importing.carry_out(source, files, NEVER) == "cancelled"
    assert_gone()


def empty_members(folder: Path) -> Path:
    path = folder / "log.json.gz"
    path.write_bytes(gzip.compress(b"", mtime=0) * 20_000)
    return path


def many_files(folder: Path) -> Path:
    path = folder / "logs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(2_000):
            archive.writestr(f"{number}.json", "\n")
    return path


@pytest.mark.parametrize(
    "made",
    [*(partial(packed, name) for name in NOTHING), empty_members, many_files],
    ids=[*NOTHING, "empty members", "files"],
)
def test_an_import_that_takes_too_long_is_refused(made: Callable[[Path], Path], tmp_path: Path, settings: Any) -> None:
    settings.IMPORT_CPU_S = 0
    source = run_import(made(tmp_path))
    assert (source.status, source.results) == ("failed", [])
    assert source.error is not None
    assert "s of CPU time (TUNEBOARD_IMPORT_CPU_S)" in source.error
    assert_gone()


def test_time_that_large_files_take_is_not_counted_against_them(tmp_path: Path, settings: Any) -> None:
    source, _ = imports.start_here([written(tmp_path, *[ansor(1e-3)] * 10)], {})
    settings.IMPORT_CPU_S = 100
    source.bytes_total = 32 << 20
    assert job._Job(source, NEVER).cpu_s == 300


@pytest.mark.parametrize("name", ["blank lines", "blank lines of Windows", "blank lines and comments"])
def test_blank_lines_count_as_lines(name: str, tmp_path: Path, settings: Any) -> None:
    settings.IMPORT_LINES = 200_000
    source = run_import(packed(name, tmp_path, begins=f"{ansor(1e-3)}\n".encode()))
    assert source.status == "failed"
    assert source.error is not None
    assert "There are more than 200,000 lines (TUNEBOARD_IMPORT_LINES)" in source.error
    assert_gone()


def test_a_worker_that_shuts_down_leaves_it_queued(tmp_path: Path) -> None:
    source, files = imports.start_here([written(tmp_path, ansor(1e-3))], {})
    shutdown = threading.Event()
    shutdown.set()
    assert source.claim()
    assert importing.carry_out(source, files, shutdown) == "queued"
    assert not Run.objects.exists()


def test_when_the_worker_dies_the_sweep_removes_what_it_made(tmp_path: Path) -> None:
    source, files = imports.start_here([written(tmp_path, ansor(1e-3))], {})
    assert source.claim()
    started = job._Job(source, NEVER)
    started.read(files)
    assert Run.objects.get().status == "running"
    Import.objects.filter(pk=source.pk).update(heartbeat_at=timezone.now() - 2 * LEASE)
    sweeping.sweep()
    source.refresh_from_db()
    assert source.status == "failed"
    assert source.error is not None
    assert "Import the files again" in source.error
    assert_gone()


def test_runs_whose_import_has_ended_are_removed_even_if_its_end_was_cut_off(tmp_path: Path) -> None:
    source, files = imports.start_here([written(tmp_path, ansor(1e-3))], {})
    assert source.claim()
    job._Job(source, NEVER).read(files)
    long_ago = timezone.now() - 2 * LEASE
    Run.objects.update(heartbeat_at=long_ago)
    Import.objects.filter(pk=source.pk).update(heartbeat_at=timezone.now())
    assert sweeping.sweep() == 0
    assert_gone_after(lambda: Import.objects.filter(pk=source.pk).update(status="failed"))


def assert_gone_after(end: Callable[[], Any]) -> None:
    assert Run.objects.get().status == "running"
    end()
    sweeping.sweep()
    assert_gone()


def assert_gone() -> None:
    assert not Run.objects.exists()
    sweeping.sweep()
    assert not Run.everything.exists()
    assert not BadLine.objects.exists()


@pytest.mark.parametrize("field", ["name", "network"])
def test_what_cannot_be_stored_is_refused_by_field(tmp_path: Path, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        imports.start_here([written(tmp_path, ansor(1e-3))], {field: "x" * 300, "weights": {"a": 0}, "what": 1})
    assert set(refused.value.fields) == {field, "weights", "what"}
    assert not Import.objects.exists()


@pytest.mark.skipif(not SHARED.exists(), reason=f"the real logs aren't in {SHARED} (TUNEBOARD_SHARED_LOGS)")
@pytest.mark.parametrize(
    "folder", ["ansor_lprnet", "ansor_tvm_ci", "autotvm_bennu", "ms_mlc_llm_dolly", "ms_tvm027_selfmade"]
)
def test_real_logs_become_what_is_known_of_them(folder: str) -> None:
    source = run_import(SHARED / folder)
    assert source.status == "finished"
    expected = json.loads((SHARED / "expected.json").read_text())
    assert {one["log"] for one in source.results} == {
        name for name in expected if name.startswith(folder) and "workload" not in name
    }
    for run in source.runs.all():
        (log,) = [one["log"] for one in source.results if one["run"] == run.pk]
        facts = expected[log]
        assert (run.trials_done, run.trials_failed) == (facts["records"], facts["failed"]), log
        assert sum(error.count for error in run.errors.all()) == facts["failed"], log
        assert run.tasks_total == facts["distinct_tasks"], log
        assert sum(task.best_latency_s or 0.0 for task in run.tasks.all()) == pytest.approx(facts["sum_of_best"]), log


def downloaded(run: Run) -> bytes:
    return b"".join(downloads.record_file(run, "native", "all").pieces)


def test_records_are_downloaded_as_they_were(tmp_path: Path) -> None:
    lines = [ansor(2e-3), ansor(None), ansor(1e-3, key="b")]
    run = only_run(run_import(written(tmp_path, "# mine", *lines)))
    assert downloaded(run).decode().splitlines() == lines


def test_a_database_without_its_workloads_keeps_its_records(tmp_path: Path) -> None:
    lines = [
        f'[{task},[[[["GetSBlock",[],["matmul","main"],["b0"]]],[]],[{secs}],{{"kind":"llvm"}},[]]]'
        for task, secs in ((0, 1e-3), (1, 1e10))
    ]
    run = only_run(run_import(written(tmp_path, *lines, name="database_tuning_record.json")))
    assert (run.engine, run.trials_done, run.trials_failed, run.tasks_total) == ("meta_schedule", 2, 1, 2)
    assert downloaded(run).decode().splitlines() == lines
    best = b"".join(downloads.record_file(run, "native", "best").pieces).decode()
    assert best.splitlines() == lines[:1]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("how", [way for way in WAYS if way != "second name"])
def test_a_file_that_is_replaced_after_it_was_chosen_isnt_followed(tmp_path: Path, how: str) -> None:
    """A work directory that is imported may belong to an engine that still runs."""
    canary = canary_in(tmp_path)
    log = written(tmp_path / "logs" / "run", ansor(1e-3))
    source, files = imports.start_here([tmp_path / "logs"], {})
    assert source.claim()
    replace(log, how, canary)
    importing.carry_out(source, files, NEVER)
    assert source.status == Import.Status.FAILED
    assert [one["reason"] for one in source.skipped] == ["it can't be read: it isn't a regular file"]
    assert not BadLine.objects.exists()
    assert_untouched(canary)
