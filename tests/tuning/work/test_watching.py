"""Watching a log: it becomes a run like all others, and nothing of it counts twice, whatever happens to the file or the process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.world import make_user
from tuning.actions import curation, runs
from tuning.models import BadLine, Project, Run
from tuning.streams import watches
from tuning.validation import Conflict, Invalid
from tuning.work.elsewhere import watched, watching
from tuning.work.elsewhere.firsts import record_file

pytestmark = pytest.mark.django_db
ARGS = [["TENSOR", [1, 128], "float32"], ["TENSOR", [64, 128], "float32"]]


@pytest.fixture(autouse=True)
def var(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.VAR = tmp_path / "var"
    monkeypatch.setattr(watching, "POLL_S", 0.0)
    for module in (watching, watched):
        monkeypatch.setattr(module, "announce_status", lambda _: None)
    monkeypatch.setattr(watched, "announce", lambda *_: None)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.json"


def line(index: int, *, target: str = "llvm", error_no: int = 0) -> str:
    """An AutoTVM record of its own second."""
    value = {
        "input": [target, "dense_nopack.x86", ARGS, {}],
        "config": {"index": index, "code_hash": None, "entity": []},
    }
    cost = 1e9 if error_no else index * 1e-3
    return (
        json.dumps(value | {"result": [[cost], error_no, 0.5, 1e9 + index], "version": 0.2, "tvm_version": "0.9.0"})
        + "\n"
    )


def append(log: Path, *lines: str) -> None:
    with log.open("a") as file:
        file.write("".join(lines))


def begin(log: Path, **about: Any) -> Run:
    run = watches.begun(log, None, Project.objects.default(), foreground=True, **about)
    assert run is not None
    return run


def follow(run: Run, *steps: Callable[[], Any]) -> Run:
    """Watch, with a step after each look at the file, until the run is stopped after the last one."""
    run = Run.objects.get(pk=run.pk)
    assert watching.claim(run)
    todo: list[Callable[[], Any]] = [*steps, lambda: runs.stop(Run.objects.get(pk=run.pk))]

    class Poll(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            todo.pop(0)()
            return False

    watching.watch(run, Poll())
    return Run.objects.get(pk=run.pk)


def latencies(run: Run) -> list[float | None]:
    return list(run.trials.order_by("number").values_list("latency_s", flat=True))


def test_it_is_a_run_like_all_others(log: Path) -> None:
    append(log, line(1))
    run = follow(
        begin(log, network="mlp"),
        lambda: append(log, line(2)[:40]),
        lambda: append(log, line(2)[40:], line(3, error_no=7), "\n", "# a comment\n"),
    )
    assert (run.origin, run.engine, run.status, run.device) == ("watched", "autotvm", "stopped", "")
    assert (run.name, run.network_name, run.target) == ("mlp", "mlp", {"kind": "llvm"})
    assert latencies(run) == [1e-3, 2e-3, None]
    assert list(run.trials.order_by("number").values_list("at_s", flat=True)) == [0.0, 1.0, 2.0]
    assert run.errors.get().kind == "run_timeout"
    assert run.tasks.get().records.count() == 2
    assert (run.work_dir / "records.json").read_text() == line(1) + line(2) + line(3, error_no=7)
    assert [session["trial"] for session in run.sessions] == [1]
    assert run.sessions[0]["tvm"] == "0.9.0"


def test_a_file_without_a_record_is_no_run_yet(log: Path) -> None:
    for text in ("", "# begun\n", line(1)[:-1]):
        log.write_text(text)
        assert watches.begun(log, None, Project.objects.default(), foreground=True) is None
    assert not Run.objects.exists()


def test_a_bad_line_is_reported_and_all_others_are_kept(log: Path) -> None:
    append(log, line(1), "nonsense\n", line(2))
    run = follow(begin(log))
    assert latencies(run) == [1e-3, 2e-3]
    assert run.bad_lines == 1
    assert [(bad.line, bad.file) for bad in BadLine.objects.all()] == [(2, "log.json")]


def test_a_rotated_log_is_another_session_and_nothing_is_lost(log: Path) -> None:
    append(log, line(1))

    def rotate() -> None:
        append(log, line(2))
        log.rename(log.with_suffix(".1"))
        append(log, line(3))

    run = follow(begin(log), rotate)
    assert latencies(run) == [1e-3, 2e-3, 3e-3]
    assert [session["trial"] for session in run.sessions] == [1, 3]


def test_a_log_that_is_written_anew_counts_nothing_twice(log: Path) -> None:
    append(log, line(1), line(2))
    run = follow(begin(log), lambda: log.write_text(line(1)), lambda: append(log, line(2), line(5)))
    assert latencies(run) == [1e-3, 2e-3, 5e-3]


def test_watching_again_continues_the_run(log: Path) -> None:
    append(log, line(1), line(2))
    first = follow(begin(log))
    append(log, line(3))
    again = begin(log)
    assert again.pk == first.pk
    run = follow(again)
    assert latencies(run) == [1e-3, 2e-3, 3e-3]
    assert list(run.trials.order_by("number").values_list("at_s", flat=True)) == [0.0, 1.0, 2.0]
    assert len(run.sessions) == 1


def test_a_file_that_is_watched_already_is_refused(log: Path) -> None:
    append(log, line(1))
    begin(log)
    with pytest.raises(Conflict, match="already watches this file"):
        begin(log)


def test_it_says_when_nothing_has_come_for_long(log: Path) -> None:
    append(log, line(1))
    run = begin(log)
    with pytest.MonkeyPatch.context() as patch:
        seen: list[str | None] = []
        patch.setattr(watched, "QUIET_AFTER", timedelta(seconds=-1))
        follow(run, lambda: seen.append(Run.objects.get(pk=run.pk).phase))
        assert seen == ["quiet"]


def test_a_worker_that_shuts_down_leaves_it_to_the_next(log: Path) -> None:
    append(log, line(1))
    run = begin(log)
    run.watch.foreground = False
    run.watch.save()
    assert run.claim()
    shutdown = threading.Event()
    shutdown.set()
    assert watching.watch(run, shutdown) == "queued"
    assert latencies(run) == [1e-3]


def test_a_meta_schedule_database_is_followed_as_a_pair(tmp_path: Path) -> None:
    module = "CQAAAAAAAAB7Im5vZGVzIjpbXX0="
    append(tmp_path / "database_workload.json", json.dumps(["77", module]) + "\n")
    records = tmp_path / "database_tuning_record.json"
    record = '[[[],[]],[%s],{"kind":"llvm"},[]]'
    append(records, f"[0,{record % 0.002}]\n")

    def another_task() -> None:
        append(tmp_path / "database_workload.json", json.dumps(["88", module]) + "\n")
        append(records, f"[1,{record % 0.004}]\n", f"[0,{record % 1e10}]\n")

    run = follow(begin(record_file(tmp_path)), another_task)
    assert latencies(run) == [2e-3, 4e-3, None]
    assert sorted(run.tasks.values_list("workload_hash", flat=True)) == [f"0x{number:016x}" for number in (77, 88)]
    assert (run.work_dir / "database_tuning_record.json").read_text() == records.read_text()
    copied = (run.work_dir / "database_workload.json").read_text()
    assert copied == (tmp_path / "database_workload.json").read_text()
    assert set(run.trials.values_list("at_s", flat=True)) == {None}, "its records have no times"


def lines_of(run: Run) -> str:
    return run.record_file.read_text()


class TestSeveralTargets:
    def test_each_is_a_live_run_from_its_first_record_on(self, log: Path) -> None:
        append(log, line(1), "nonsense\n")
        seen: list[list[str]] = []

        def look() -> None:
            seen.append(list(Run.objects.order_by("pk").values_list("status", flat=True)))

        def more() -> None:
            look()
            append(log, line(2, target="cuda"), "rubbish\n", line(3))

        llvm = follow(begin(log, network="mlp"), more, look, lambda: append(log, line(4, target="cuda"), line(5)))
        cuda = Run.objects.exclude(pk=llvm.pk).get()
        assert seen == [["running"], ["running", "running"]]
        assert (cuda.name, cuda.network, cuda.target["kind"]) == ("mlp · cuda", llvm.network, "cuda")
        assert [latencies(run) for run in (llvm, cuda)] == [[1e-3, 3e-3, 5e-3], [2e-3, 4e-3]]
        assert lines_of(cuda) == line(2, target="cuda") + line(4, target="cuda")
        assert [(bad.run_id, bad.line) for bad in BadLine.objects.all()] == [(llvm.pk, 2), (llvm.pk, 4)]
        assert {llvm.status, cuda.status} == {"stopped"}, "a file isn't watched any more for all of its runs"

    def test_both_are_in_the_file_from_the_beginning(self, log: Path) -> None:
        append(log, line(1), line(2, target="cuda"), line(3))
        llvm = follow(begin(log))
        cuda = Run.objects.exclude(pk=llvm.pk).get()
        assert [latencies(run) for run in (llvm, cuda)] == [[1e-3, 3e-3], [2e-3]]
        assert [session["trial"] for session in cuda.sessions] == [1]

    def test_watching_again_continues_all_of_them(self, log: Path) -> None:
        append(log, line(1), line(2, target="cuda"))
        first = follow(begin(log))
        append(log, line(3, target="cuda"), "nonsense\n", line(4))
        llvm = follow(begin(log))
        cuda = Run.objects.exclude(pk=llvm.pk).get()
        assert llvm.pk == first.pk
        assert [latencies(run) for run in (llvm, cuda)] == [[1e-3, 4e-3], [2e-3, 3e-3]]
        assert BadLine.objects.count() == 1

    def test_stopping_any_of_them_ends_the_watching(self, log: Path) -> None:
        append(log, line(1), line(2, target="cuda"))
        llvm = begin(log)
        assert watching.claim(llvm)

        class Poll(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                runs.stop(Run.objects.exclude(pk=llvm.pk).get())
                return False

        assert watching.watch(llvm, Poll()) == "stopped"
        assert set(Run.objects.values_list("status", flat=True)) == {"stopped"}

    def test_stopping_one_that_waits_stops_all(self, log: Path) -> None:
        append(log, line(1), line(2, target="cuda"))
        follow(begin(log))
        run = begin(log)
        assert set(Run.objects.values_list("status", flat=True)) == {"queued"}
        runs.stop(run)
        assert set(Run.objects.values_list("status", flat=True)) == {"stopped"}

    def test_all_of_them_can_be_selected_and_stopped(self, log: Path) -> None:
        append(log, line(1), line(2, target="cuda"))
        follow(begin(log))
        begin(log)
        keys = list(Run.objects.values_list("pk", flat=True))
        assert curation.act(None, "stop", keys) == {"action": "stop", "done": keys, "refused": {}}
        assert set(curation.act(None, "stop", keys)["refused"]) == set(keys)

    def test_a_worker_that_shuts_down_leaves_all_to_the_next_which_takes_them_together(self, log: Path) -> None:
        append(log, line(1), line(2, target="cuda"))
        run = begin(log)
        run.watch.foreground = False
        run.watch.save()
        assert watching.claim(run)
        shutdown = threading.Event()
        shutdown.set()
        assert watching.watch(run, shutdown) == "queued"
        llvm, cuda = Run.objects.order_by("pk")
        assert [each.status for each in (llvm, cuda)] == ["queued", "queued"]
        append(log, line(3, target="cuda"), line(4))
        again = follow(cuda)
        assert not watching.claim(llvm), "the other one's job has it, too"
        assert [latencies(each) for each in (llvm, again)] == [[1e-3, 4e-3], [2e-3, 3e-3]]

    def test_a_target_that_begins_in_the_rest_of_a_rotated_file_loses_nothing(self, log: Path) -> None:
        append(log, line(1))

        def rotate() -> None:
            append(log, line(2, target="cuda"))
            log.rename(log.with_suffix(".1"))
            append(log, line(3), line(4, target="cuda"))

        llvm = follow(begin(log), rotate)
        cuda = Run.objects.exclude(pk=llvm.pk).get()
        assert [latencies(run) for run in (llvm, cuda)] == [[1e-3, 3e-3], [2e-3, 4e-3]]
        assert [[session["trial"] for session in run.sessions] for run in (llvm, cuda)] == [[1, 2], [1, 2]]

    def test_a_log_that_is_written_anew_counts_nothing_twice(self, log: Path) -> None:
        text = line(1) + line(2, target="cuda")
        append(log, text)
        llvm = follow(begin(log), lambda: log.write_text(text[:-1]), lambda: append(log, "\n", line(5, target="cuda")))
        cuda = Run.objects.exclude(pk=llvm.pk).get()
        assert [latencies(run) for run in (llvm, cuda)] == [[1e-3], [2e-3, 5e-3]]

    def test_a_run_that_was_taken_away_leaves_the_file_to_the_next_worker(self, log: Path) -> None:
        append(log, line(1), line(2, target="cuda"))
        llvm = begin(log)
        llvm.watch.foreground = False
        llvm.watch.save()
        assert watching.claim(llvm)
        cuda = Run.objects.exclude(pk=llvm.pk)

        class Poll(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                cuda.update(status="interrupted", lease="another")
                return False

        assert watching.watch(llvm, Poll()) == "queued"
        assert cuda.get().status == "interrupted"
        append(log, line(3, target="cuda"))
        again = follow(llvm)
        assert [latencies(run) for run in (again, cuda.get())] == [[1e-3], [2e-3, 3e-3]], "its next record continues it"

    def test_there_are_at_most_so_many(self, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watching, "MOST_TARGETS", 2)
        append(log, line(1), line(2, target="cuda"), line(3, target="metal"), line(4))
        run = follow(begin(log))
        assert Run.objects.count() == 2
        assert latencies(run) == [1e-3, 4e-3]
        assert [bad.line for bad in BadLine.objects.all()] == [3]

    def test_a_meta_schedule_database(self, tmp_path: Path) -> None:
        append(tmp_path / "database_workload.json", json.dumps(["77", "CQAAAAAAAAB7Im5vZGVzIjpbXX0="]) + "\n")
        records = tmp_path / "database_tuning_record.json"
        record = '[0,[[[],[]],[%s],{"kind":"%s"},[]]]\n'
        append(records, record % (0.002, "llvm"), record % (0.003, "cuda"))
        llvm = follow(begin(records))
        cuda = Run.objects.exclude(pk=llvm.pk).get()
        assert [latencies(run) for run in (llvm, cuda)] == [[2e-3], [3e-3]]
        assert lines_of(cuda) == record % (0.003, "cuda")


class TestAllowedFolders:
    def test_only_files_below_them(self, log: Path, tmp_path: Path, settings: Any) -> None:
        append(log, line(1))
        user = make_user("operator")
        allowed = tmp_path / "allowed"
        allowed.mkdir()
        settings.WATCH_FOLDERS = [str(allowed)]
        (allowed / "link.json").symlink_to(log)
        for path in (str(log), str(allowed / "link.json"), f"{allowed}/../log.json", "log.json", "", None):
            with pytest.raises(Invalid) as wrong:
                watches.start(path, user)
            assert set(wrong.value.fields) == {"path"}
        assert not Run.objects.exists()
