"""What scripts send: whatever comes twice, late, with gaps, from several processes or after the end counts once, or is refused clearly."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.world import make_user
from tuning.actions import curation, runs, sweeping
from tuning.logs import errors
from tuning.logs import opening as logs
from tuning.logs.neutral import Trial as Line
from tuning.logs.sources import sources
from tuning.models import AuditEntry, Network, Run, Stream, StreamDict, Tally
from tuning.models.run import STREAM_PATIENCE
from tuning.streams import receiving
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db
OPENING = {"stream": "mine", "session": "a", "engine": "autotvm", "target": "llvm -mcpu=znver4", "started_at": 1000.0}
WORKLOAD = json.dumps(["dense_nopack.x86", [["TENSOR", [1, 128], "float32"], ["TENSOR", [64, 128], "float32"]], {}])
DENSE = {"key": "dense", "name": "dense_nopack.x86", "weight": 3, "workload": WORKLOAD}


@pytest.fixture(autouse=True)
def var(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path


def begin(**more: Any) -> StreamDict:
    return receiving.begin({**OPENING, **more}, None)


def native(index: int) -> str:
    value = {
        "input": ["llvm -mcpu=znver4", *json.loads(WORKLOAD)],
        "config": {"index": index, "code_hash": None, "entity": []},
    }
    return json.dumps(value | {"result": [[index * 1e-3], 0, 0.5, 1000 + index], "version": 0.2})  # fmt: skip


def trial(number: int, **more: Any) -> dict[str, Any]:
    """Every third one failed."""
    about: dict[str, Any] = {"number": number, "task": "dense", "at": 1000.0 + number, **more}
    if number % 3 == 0:
        return about | {"error_no": 4, "error": f"no device at 0x{number:x}"}
    return about | {"costs_s": [number * 1e-3], "record": native(number)}


def send(numbers: range | list[int], session: str = "a", **more: Any) -> StreamDict:
    body = {"session": session, "tasks": [DENSE], "trials": [trial(number) for number in numbers]}
    return receiving.take(stream().run, body | more)


def stream() -> Stream:
    return Stream.objects.select_related("run").get(key="mine")


def end(session: str = "a", **more: Any) -> StreamDict:
    return receiving.end(stream().run, {"session": session, **more})


def numbers() -> list[int]:
    return list(stream().run.trials.order_by("number").values_list("number", flat=True))


def lose_touch(run: Run) -> None:
    long_ago = timezone.now() - STREAM_PATIENCE - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(heartbeat_at=long_ago)
    sweeping.sweep()


class TestARun:
    def test_it_is_one_like_all_others(self) -> None:
        user = make_user("operator")
        begun = receiving.begin({**OPENING, "network": "resnet-18", "versions": {"apache-tvm": "0.9.0"}}, user)
        assert begun == {"run": begun["run"], "status": "running", "have": 0, "stop": False}
        send(range(1, 6))
        run = Run.objects.get(pk=begun["run"])
        assert (run.origin, run.engine, run.device, run.created_by) == ("streamed", "autotvm", "", user)
        assert (run.name, run.network_name, run.trials_budget) == ("resnet-18", "resnet-18", None)
        assert run.target == {"kind": "llvm", "mcpu": "znver4"}
        assert (run.trials_done, run.trials_failed, run.tasks_total, run.elapsed_s) == (5, 1, 1, 5.0)
        assert run.estimated_latency_s == pytest.approx(3e-3)
        task = run.tasks.get()
        assert (task.name, task.weight, task.best_latency_s, task.best_trial) == ("dense_nopack.x86", 3, 1e-3, 1)
        assert (task.flop, task.flop_derived) == (16384.0, True)
        assert [record.text for record in task.records.all()] == [native(number) for number in (1, 2, 4, 5)]
        error = run.errors.get()
        assert (error.kind, error.text) == (errors.named("autotvm", 4).kind, "no device at 0x3")
        assert run.sessions[0]["tvm"] == "0.9.0"
        assert not Tally.objects.exists(), "nothing was measured here"
        assert end()["status"] == "finished"

    def test_its_task_is_the_same_as_in_a_log(self, tmp_path: Path) -> None:
        begin()
        send([1])
        (tmp_path / "log.json").write_text(native(1) + "\n")
        (log,) = logs.open_logs(sources(tmp_path / "log.json")).logs
        list(log.batches())
        (task,) = log.tasks.values()
        assert stream().run.tasks.get().workload_hash == task.workload_hash

    def test_its_record_file_has_a_line_for_each_trial(self) -> None:
        begin()
        send(range(1, 4))
        send(range(4, 6))
        file = stream().run.work_dir / "records.json"
        assert file.read_text().splitlines() == [
            *map(native, (1, 2)),
            "# trial 3: no record",
            *map(native, (4, 5)),
        ]
        (log,) = logs.open_logs(sources(file)).logs
        found = [each for batch in log.batches() for each in batch]
        assert [each.latency_s for each in found if isinstance(each, Line)] == [1e-3, 2e-3, 4e-3, 5e-3]

    def test_a_record_that_cannot_be_used_is_left_out_and_its_trial_counts(self) -> None:
        begin()
        hostile = native(2).replace('"entity": []', '"entity": [["x", "ot", "import os; os.abort()"]]')
        receiving.take(
            stream().run, {"session": "a", "tasks": [DENSE], "trials": [trial(1), trial(2) | {"record": hostile}]}
        )
        run = stream().run
        assert run.trials_done == 2
        assert [record.text for record in run.tasks.get().records.all()] == [native(1)]
        assert "os.abort" not in (run.work_dir / "records.json").read_text()
        (bad,) = run.bad_line_set.all()
        assert (bad.line, run.bad_lines) == (2, 1)
        assert "its record can't be used: a knob's value isn't a word" in bad.reason

    def test_a_task_that_cannot_be_used_is_refused_by_its_name(self) -> None:
        begin(engine="meta_schedule")
        nodes = base64.b64encode(b"\x09" + bytes(7) + b'{"nodes":[{"type":"ffi.Module"}]}').decode()
        task = {"key": "0", "workload": json.dumps(["77", nodes])}
        with pytest.raises(Invalid) as caught:
            receiving.take(stream().run, {"session": "a", "tasks": [task]})
        assert (
            "can't be used: its workload has a part that isn't read here: 'ffi.Module'"
            in caught.value.fields["tasks.0.workload"]
        )
        assert not stream().run.tasks.exists()

    def test_what_a_killed_process_wrote_of_a_batch_is_overwritten(self) -> None:
        begin()
        send([1])
        file = stream().run.work_dir / "records.json"
        with file.open("a") as log:
            log.write("torn and longer than the next line will ever be" * 100)
        send([2])
        assert file.read_text().splitlines() == [native(1), native(2)]

    def test_meta_schedules_files_are_a_pair(self) -> None:
        begin(engine="meta_schedule")
        module = "CQAAAAAAAAB7Im5vZGVzIjpbXX0="  # eight bytes and {"nodes":[]}
        tasks = [
            {"key": "0", "name": "softmax"},
            {"key": "1", "workload": json.dumps(["77", module])},
            {"key": "2", "workload": json.dumps(["88", module])},
        ]
        record = '[[[],[]],[0.002],{"kind":"llvm"},[]]'
        ok = {"costs_s": [2e-3], "record": record}
        trials = [{"number": 1, "task": "2", **ok}, {"number": 2, "task": "0", **ok}]
        trials += [{"number": 3, "task": "1", "error_kind": "build"}]
        receiving.take(stream().run, {"session": "a", "tasks": tasks, "trials": trials})
        run = stream().run
        assert run.tasks.get(index=2).workload_hash == "0x0000000000000058"
        folder = run.work_dir
        assert len((folder / "database_workload.json").read_text().splitlines()) == 2
        lines = (folder / "database_tuning_record.json").read_text().splitlines()
        assert lines[0] == f"[1,{record}]"
        assert len(lines) == 3
        (kept,) = run.tasks.get(index=2).records.all()
        assert json.loads(kept.text) == [["88", module], json.loads(record)]
        assert [row.error_kind for row in run.trials.order_by("number")] == [None, None, "build"]

    def test_a_network_of_a_name_is_kept_once_a_project(self) -> None:
        for name in ("mine", "other"):
            begin(stream=name, network="resnet-18")
        assert Network.objects.filter(name="resnet-18").count() == 1

    def test_it_occupies_no_device(self) -> None:
        begin()
        begin(stream="other")
        assert Run.objects.live().count() == 2
        assert not Run.objects.occupying().exists()
        assert Run.objects.places() == {}


class TestWhatComesAgain:
    def test_a_batch_that_is_sent_twice_counts_once(self) -> None:
        begin()
        for _ in range(2):
            assert send(range(1, 5))["have"] == 4
        assert send(range(3, 8))["have"] == 7
        assert numbers() == [*range(1, 8)]

    def test_out_of_order_within_a_batch(self) -> None:
        begin()
        assert send([3, 1, 2, 2])["have"] == 3
        assert list(stream().run.trials.order_by("number").values_list("latency_s", flat=True)) == [1e-3, 2e-3, None]

    def test_after_a_gap_nothing_is_taken(self) -> None:
        begin()
        assert send([1, 2, 4, 5])["have"] == 2
        assert send([4, 5])["have"] == 2
        assert send(range(1, 6))["have"] == 5

    def test_to_begin_again_says_how_far_it_is(self) -> None:
        begin()
        send(range(1, 4))
        assert begin()["have"] == 3
        assert AuditEntry.objects.filter(action="stream.start").count() == 1


class TestSeveralProcesses:
    def test_two_at_once_lose_nothing(self) -> None:
        assert begin()["run"] == begin(session="b", started_at=5000.0)["run"]
        send([1, 2])
        assert send([1], "b")["have"] == 1
        send([3])
        run = stream().run
        assert numbers() == [1, 2, 3, 4]
        assert [session["trial"] for session in run.sessions] == [1, 1]
        assert end("a")["status"] == "running", "the other one goes on"
        assert end("b")["status"] == "finished"

    def test_a_later_process_continues_the_run(self) -> None:
        begin()
        send([1, 2])
        end()
        begin(session="b", started_at=9000.0)
        run = stream().run
        assert (run.status, run.finished_at) == ("running", None)
        assert [session["trial"] for session in run.sessions] == [1, 3]
        send([1], "b", trials=[trial(1) | {"at": 9004.0}])
        assert list(run.trials.order_by("number").values_list("at_s", flat=True)) == [1.0, 2.0, 6.0]

    def test_another_target_or_engine_needs_another_name(self) -> None:
        begin()
        for other in ({"target": "cuda"}, {"engine": "auto_scheduler"}):
            with pytest.raises(Conflict, match="Give this one another name"):
                begin(session="b", **other)


class TestSilence:
    def test_after_three_minutes_it_is_interrupted_and_then_continues(self) -> None:
        begin()
        send([1])
        run = stream().run
        Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=2))
        sweeping.sweep()
        assert stream().run.status == "running"
        lose_touch(run)
        run = stream().run
        assert run.status == "interrupted"
        assert run.error is not None
        assert "The script hasn't been heard from for 3 minutes" in run.error
        assert send([2])["status"] == "running"
        run = stream().run
        assert (run.error, run.finished_at, run.trials_done) == (None, None, 2)

    def test_an_empty_batch_says_that_the_script_is_alive(self) -> None:
        begin()
        run = stream().run
        lose_touch(run)
        assert send([], tasks=[])["status"] == "running"
        assert AuditEntry.objects.count() == 1, "no entry for a batch"


class TestStop:
    def test_the_script_is_told(self) -> None:
        begin()
        runs.stop(stream().run)
        assert send([1]) == {"run": stream().run.pk, "status": "stopping", "have": 1, "stop": True}
        assert send([2])["have"] == 2, "what was measured meanwhile counts"
        assert end(status="stopped") == {"run": stream().run.pk, "status": "stopped", "have": 2, "stop": False}

    def test_a_script_that_was_away_is_told_when_it_comes_back(self) -> None:
        begin()
        runs.stop(stream().run)
        lose_touch(stream().run)
        assert stream().run.status == "stopped"
        assert send([1])["stop"]
        assert end()["status"] == "stopped"


class TestTheEnd:
    def test_a_failure_has_its_text(self) -> None:
        begin()
        send([1])
        end(status="failed", error="ValueError: no such layer")
        run = stream().run
        assert (run.status, run.error) == ("failed", "ValueError: no such layer")

    def test_a_run_without_a_valid_trial_has_failed(self) -> None:
        begin()
        receiving.take(stream().run, {"session": "a", "tasks": [DENSE], "trials": [trial(3) | {"number": 1}]})
        end()
        run = stream().run
        assert run.status == "failed"
        assert run.error is not None
        assert "no device at 0x3" in run.error

    def test_after_it_nothing_new_is_taken(self) -> None:
        begin()
        send([1])
        end()
        assert end()["status"] == "finished"
        assert AuditEntry.objects.filter(action="stream.end").count() == 1
        assert send([1])["have"] == 1
        with pytest.raises(Conflict, match="The session has ended with 1 trials"):
            send([1, 2])

    def test_a_deleted_run_says_so(self) -> None:
        begin()
        send([1])
        end()
        curation.delete(stream().run)
        with pytest.raises(Conflict, match="was deleted"):
            send([2])
        with pytest.raises(Conflict, match="was deleted"):
            begin(session="b")
        with pytest.raises(Conflict, match="was deleted"):
            end()


class TestBadInput:
    @pytest.mark.parametrize(
        ("field", "changes"),
        [
            ("engine", {"engine": "halide"}),
            ("target", {"target": "-mcpu=x"}),
            ("session", {"session": ""}),
            ("stream", {"stream": "x" * 201}),
            ("netwrok", {"netwrok": "mlp"}),
            ("project", {"project": "none"}),
        ],
    )
    def test_an_opening_names_the_field(self, field: str, changes: dict[str, Any]) -> None:
        with pytest.raises(Invalid) as wrong:
            begin(**changes)
        assert set(wrong.value.fields) == {field}
        assert not Run.objects.exists()

    @pytest.mark.parametrize(
        ("field", "body"),
        [
            ("session", {"session": "other"}),
            ("trials[0].task", {"trials": [trial(1, task="conv")]}),
            ("trials[0]", {"trials": [{"number": 1, "task": "dense"}]}),
            ("trials[1].error_kind", {"trials": [trial(1), {"number": 2, "task": "dense", "error_kind": "boom"}]}),
            ("trials[0].number", {"trials": [trial(0)]}),
            ("tasks.x.workload", {"tasks": [{"key": "x", "workload": "}"}]}),
        ],
    )
    def test_a_batch_names_the_field_and_stores_nothing(self, field: str, body: dict[str, Any]) -> None:
        begin()
        with pytest.raises(Invalid) as wrong:
            send([1], **body)
        assert set(wrong.value.fields) == {field}
        assert (stream().run.trials_done, stream().run.tasks.count()) == (0, 0)

    def test_a_time_that_isnt_usable_is_an_error(self) -> None:
        begin()
        send([1], trials=[{"number": 1, "task": "dense", "costs_s": [-1.0]}])
        assert stream().run.trials.get().error_kind == "no_latency"
