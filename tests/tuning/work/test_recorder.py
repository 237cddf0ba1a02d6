"""Recording a batch: what is stored, what is announced, and that a crash between any two steps loses nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.db import DatabaseError, connection
from django.db.models.functions import Now
from django.db.models.query import QuerySet

from tests.world import (
    TARGET,
    claimed,
    extracted,
    make_machine,
    make_run,
    make_tasks,
    measured_run,
    on,
    record_trials,
    task_infos,
    trial,
)
from tuning.engines.wire.protocol import (
    Adapted,
    Begun,
    Confirmed,
    Event,
    Phase,
    Preferred,
    ReferenceMeasured,
    TasksExtracted,
    WarmStarted,
)
from tuning.models import KEEP_BEST, Machine, Record, Run, Trial, TrialError, level_of_detail
from tuning.noise import noise
from tuning.work.recorder import EngineMisbehaved, LeaseLost, Recorder, error_digest

pytestmark = pytest.mark.django_db


def test_it_stores_trials_counters_and_bests() -> None:
    run = measured_run([(0, 2e-3), (0, None), (1, 5e-3), (0, 1e-3), (0, 3e-3)])
    task = run.tasks.get(index=0)
    assert (run.trials_done, run.trials_failed, run.tasks_total, run.tasks_measured) == (5, 1, 2, 2)
    assert (task.trials, task.failed, task.best_latency_s, task.best_trial) == (4, 1, 1e-3, 4)
    assert list(run.trials.values_list("number", "nth", "lod", "improved")) == [
        (1, 1, 0, True),
        (2, 2, 1, False),
        (3, 1, 0, True),
        (4, 3, 2, True),
        (5, 4, 0, False),
    ]


def test_it_estimates_only_when_every_task_has_a_valid_trial() -> None:
    run = measured_run([(0, 2e-3), (1, None)])
    assert (run.estimated_latency_s, run.tasks_measured) == (None, 1)
    record_trials(run, [(1, 1e-3)])
    assert run.estimated_latency_s == pytest.approx(2e-3 * 1 + 1e-3 * 2)


def test_a_short_measurement_is_never_its_tasks_best() -> None:
    run = measured_run([(0, 2e-3)])
    Recorder(run).record([trial(0, 1e-3, short=True)])
    task = run.tasks.get(index=0)
    assert (task.best_latency_s, task.best_trial, task.trials) == (2e-3, 1, 2)
    assert list(run.trials.values_list("latency_s", "short", "improved")) == [(2e-3, False, True), (1e-3, True, False)]
    assert list(task.records.values_list("trial", flat=True)) == [1]


def test_trials_of_a_machine_that_others_disturb_are_noisy_and_count_like_others() -> None:
    run = measured_run([(0, 2e-3)])
    Run.objects.filter(pk=run.pk).update(machine=make_machine("lab-1"))
    recorder = Recorder(run)
    recorder.disturbed = frozenset({"lab-1"})
    events = [trial(0, 1e-3), trial(0, None), trial(0, 3e-3, recovered=True), trial(1, 4e-3, machine="lab-2")]
    assert recorder.record(events)["trials"]["noisy"] == [True, False, False, False]
    assert list(run.trials.values_list("noisy", flat=True)) == [False, True, False, False, False]
    assert run.tasks.get(index=0).best_trial == 2
    assert recorder.run.trials_noisy == Run.objects.get(pk=run.pk).trials_noisy == 1
    recorder.disturbed = frozenset({"lab-2"})
    assert recorder.record([trial(1, 5e-3, machine="lab-2"), trial(0, 5e-3)])["trials"]["noisy"] == [True, False]


def test_it_stores_which_machine_measured_each_trial() -> None:
    home, other = make_machine("lab-1"), make_machine("lab-2")
    run = on(home)
    make_tasks(run)
    events = [trial(0), trial(0, machine="lab-2"), trial(1, None, machine="lab-2"), trial(1, recovered=True)]
    assert Recorder(run).record(events)["trials"]["machine"] == ["lab-1", "lab-2", "lab-2", None]
    Machine.objects.filter(pk=other.pk).update(forgotten_at=Now())
    assert list(run.trials.values_list("machine__name", flat=True)) == ["lab-1", "lab-2", "lab-2", None]
    assert list(run.measurers()) == [home, other]
    assert Recorder(run).record([trial(0, machine="lab-2")])["trials"]["machine"] == ["lab-2"]


@pytest.mark.parametrize("values", [{"origin": "watched"}, {"device": "rpc:lab/pi"}], ids=str)
def test_it_stores_no_machine_that_did_not_measure(values: dict[str, Any]) -> None:
    run = on(make_machine("lab-1"), **values)
    make_tasks(run)
    record_trials(run, [(0, 1e-3)])
    assert list(run.trials.values_list("machine", flat=True)) == [None]
    assert not run.measurers().exists()


def test_a_machine_whose_first_trials_could_not_be_stored_is_stored_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = on(make_machine("lab-1"))
    make_tasks(run)
    recorder = Recorder(run)
    with monkeypatch.context() as patch:
        patch.setattr(Record.objects.__class__, "bulk_create", raises)
        with pytest.raises(DatabaseError):
            recorder.record([trial(0)])
    assert not run.measurers().exists()
    recorder.record([trial(0)])
    assert [machine.name for machine in run.measurers()] == ["lab-1"]
    assert list(run.trials.values_list("machine__name", flat=True)) == ["lab-1"]


def raises(*_: object, **__: object) -> None:
    raise DatabaseError("the disk is full")


def test_its_delta_says_what_changed() -> None:
    run = measured_run([(0, 2e-3)])
    delta = record_trials(run, [(1, 4e-3), (1, None)])
    assert (delta["after"], delta["last"]) == (1, 3)
    assert delta["trials"] == {
        "number": [2, 3],
        "task": [1, 1],
        "latency_s": [4e-3, None],
        "error": [None, "run"],
        "short": [False, False],
        "at_s": [2.0, 3.0],
        "nth": [1, 2],
        "improved": [True, False],
        "noisy": [False, False],
        "machine": [None, None],
        "last": 3,
    }
    assert [task["index"] for task in delta["tasks"]] == [1]
    assert delta["run"]["trials_done"] == 3
    assert "tasks" not in delta["run"]


def test_it_keeps_the_best_records_of_each_task() -> None:
    latencies = [(0, (7 * n % 20 + 1) * 1e-3) for n in range(20)]
    run = measured_run(latencies)
    record_trials(run, [(0, 0.5e-3)])
    kept = Record.objects.filter(task__run=run).values_list("latency_s", flat=True)
    best = sorted([latency for _, latency in latencies] + [0.5e-3])[:KEEP_BEST]
    assert list(kept) == pytest.approx(best)


def test_it_groups_errors_by_text() -> None:
    run = claimed(make_run())
    Recorder(run).record(
        [
            extracted(),
            trial(0, None, error_kind="build", error="LLVM ERROR at 0x7f01: no register"),
            trial(1, None, error_kind="build", error="LLVM ERROR at 0x7f99: no register"),
            trial(0, None, error="out of memory"),
        ]
    )
    assert list(run.errors.values_list("kind", "count", "first_trial", "last_trial", "tasks")) == [
        ("build", 2, 1, 2, [0, 1]),
        ("run", 1, 3, 3, [0]),
    ]
    assert set(run.trials.values_list("number", "error__kind")) == {(1, "build"), (2, "build"), (3, "run")}


def test_it_stores_the_phase_and_its_task() -> None:
    run = claimed(make_run())
    delta = Recorder(run).record([extracted(), Phase("searching", 1)])
    assert (delta["run"]["phase"], delta["run"]["phase_task"], delta["run"]["status"]) == ("searching", 1, "running")
    assert (delta["after"], delta["last"]) == (0, 0)


def test_a_resumed_run_keeps_its_tasks() -> None:
    run = measured_run()
    Recorder(run).record([extracted(), trial(0, 0.5e-3)])
    run.refresh_from_db()
    assert (run.trials_done, run.tasks.count()) == (4, 2)


def test_the_faster_of_two_tasks_that_compute_the_same_counts() -> None:
    run = claimed(make_run())
    infos = [*task_infos(2), msgspec.structs.replace(task_infos(3)[2], weight=0)]
    recorder = Recorder(run)
    recorder.record([TasksExtracted(target={}, tasks=infos), trial(0, 4e-3), trial(1, 1e-3)])
    weights = [info.weight or 0 for info in infos]
    before_s = 4e-3 * weights[0] + 1e-3 * weights[1]
    assert Run.objects.get(pk=run.pk).estimated_latency_s == pytest.approx(before_s), "the third isn't waited for"
    recorder.record([trial(2, 3e-3), Preferred(2, instead_of=0)])
    assert [task.weight for task in run.tasks.order_by("index")] == [0, weights[1], weights[0]]
    after_s = 3e-3 * weights[0] + 1e-3 * weights[1]
    found = Run.objects.get(pk=run.pk)
    assert found.estimated_latency_s == pytest.approx(after_s)
    assert found.estimates[-1] == [3, pytest.approx(after_s, rel=1e-4)]


def test_a_resumed_run_keeps_what_counts() -> None:
    """Its engine announces the tasks as at first, then tells again which of two counts."""
    run = claimed(make_run())
    announced = TasksExtracted(target={}, tasks=[*task_infos(1), msgspec.structs.replace(task_infos(2)[1], weight=0)])
    Recorder(run).record([announced, trial(0, 4e-3), trial(1, 3e-3), Preferred(1, 0)])
    Recorder(run).record([announced, Preferred(1, 0)])
    weights = [task.weight for task in run.tasks.order_by("index")]
    assert weights == [0, announced.tasks[0].weight]


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([trial(7)], "task 7"),
        ([trial(0)] * 62, "more than the budget"),
        ([trial(0, None, error_kind=None)], "neither"),
        ([trial(0, 1e-3, error_kind="run")], "both"),
        ([TasksExtracted(target={}, tasks=task_infos(1))], "aren't the ones"),
        ([Preferred(1, 0)], "isn't its rival"),
    ],
)
def test_it_refuses_events_that_break_the_protocol(events: list[Event], says: str) -> None:
    run = measured_run()
    with pytest.raises(EngineMisbehaved, match=says):
        Recorder(run).record(events)
    assert Trial.objects.filter(run=run).count() == 3
    run.refresh_from_db()
    assert run.trials_done == 3


def test_it_writes_nothing_after_the_run_was_taken_away() -> None:
    run = measured_run()
    recorder = Recorder(run)
    Run.objects.filter(pk=run.pk).update(lease="somebody else's")
    with pytest.raises(LeaseLost):
        recorder.record([trial(0)])
    assert run.trials.count() == 3


class _NthWriteFails:
    """Make the nth statement that writes fail, as a lost connection would."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE")):
            self.left -= 1
            if self.left == 0:
                raise DatabaseError("crash")
        return execute(sql, params, many, context)


def _everything(run: Run) -> dict[str, Any]:
    def rows(query: QuerySet[Any], *but: str) -> list[Any]:
        return [{key: row[key] for key in row if key not in but} for row in query.values()]

    return {
        "run": rows(Run.objects.filter(pk=run.pk), "heartbeat_at"),
        "tasks": rows(run.tasks.all()),
        "trials": rows(run.trials.all(), "id", "error_id"),
        "errors": rows(TrialError.objects.filter(run=run), "id"),
        "records": rows(Record.objects.filter(task__run=run), "id"),
    }


def test_a_crash_between_any_two_steps_leaves_all_or_nothing_and_can_be_repeated() -> None:
    full = [(0, (n + 2) * 1e-3) for n in range(KEEP_BEST)]
    batch: list[Event] = [trial(0, 1e-3, at_s=99.0), trial(1, None, at_s=99.5), trial(0, 9.0, at_s=99.9)]
    undisturbed = measured_run(full)
    Recorder(undisturbed).record(batch)
    expected = _everything(undisturbed)
    Run.objects.update(status="finished")

    step = 1
    while True:
        run = measured_run(full)
        before = _everything(run)
        recorder = Recorder(run)
        try:
            with connection.execute_wrapper(_NthWriteFails(step)):
                recorder.record(batch)
        except DatabaseError:
            assert _everything(run) == before
            recorder.record(batch)
            assert _comparable(_everything(run)) == _comparable(expected)
        else:
            break
        Run.objects.update(status="finished")
        step += 1
    assert step > 5, "run, tasks, errors, trials and records are written in separate steps"


def _comparable(everything: dict[str, Any]) -> dict[str, Any]:
    own = {"id", "run_id", "task_id", "lease", "status", "created_at", "queued_at", "started_at", "best_trial_id"}
    return {
        name: [{key: value for key, value in row.items() if key not in own} for row in rows]
        for name, rows in everything.items()
    }


@pytest.mark.parametrize(("number", "level"), [(1, 0), (2, 1), (3, 0), (8, 3), (12, 2), (1 << 20, 20)])
def test_the_level_of_detail_counts_trailing_zeros(number: int, level: int) -> None:
    assert level_of_detail(number) == level


def test_an_error_digest_ignores_what_differs_from_trial_to_trial() -> None:
    one = error_digest("run", "Segfault in /tmp/abc/lib.so at 0x7fff12 (pid 123)")
    assert one == error_digest("run", "Segfault in /tmp/xyz/lib.so at 0x1234 (pid 7)")
    assert one != error_digest("build", "Segfault in /tmp/abc/lib.so at 0x7fff12 (pid 123)")
    assert one != error_digest("run", "Out of memory (pid 123)")


def test_the_reference_tells_noise_and_drift_and_is_no_trial() -> None:
    run = measured_run([(0, 1e-3), (1, 2e-3)])
    steady = [1.0, 1.01, 0.99, 1.01, 0.99]
    recorder = Recorder(run)
    delta = recorder.record([ReferenceMeasured(2, 2e-3 * each, 20.0 + each) for each in steady[:4]])
    assert (delta["after"], delta["last"], delta["run"]["noise"]) == (2, 2, None)
    recorder.record([trial(0, 1e-3, at_s=25.0), ReferenceMeasured(2, 2e-3 * steady[4], 26.0)])
    run.refresh_from_db()
    assert (run.trials_done, run.reference_trial, run.drift) == (3, 2, None)
    assert run.noise == pytest.approx(noise(steady))
    rows = run.reference_measurements.values_list("after", "at_s", "latency_s")
    assert [*rows][3:] == [(2, 21.01, 2.02e-3), (3, 26.0, 1.98e-3)]

    # Another supervisor goes on where this one was.
    Recorder(run).record([ReferenceMeasured(2, 2e-3 * 1.18 * each, 30.0) for each in steady])
    run.refresh_from_db()
    assert run.drift == pytest.approx(0.18)
    alert = run.alerts([])[0]
    assert (alert["kind"], alert["task"]) == ("drift", None)
    assert alert["message"].startswith("The machine has become 18.0\u00a0% slower since the run began")
    run.move("running", to="finished")
    message = run.alerts([])[0]["message"]
    assert message.startswith("The machine became 18.0\u00a0% slower while the run was tuned: one and the same record")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"machines_wanted": 0}, "The machines have become 20.0\u00a0% faster since the run began: one and the same"),
        ({"device": "rpc:lab/pi"}, "The devices have become 20.0\u00a0% faster since the run began: one and the same"),
    ],
    ids=["pool", "remote"],
)
def test_drift_names_what_measures(values: dict[str, Any], says: str) -> None:
    run = measured_run([(0, 1e-3)], **values)
    Recorder(run).record([ReferenceMeasured(1, latency, 1.0) for latency in [1e-3] * 5 + [8e-4] * 5])
    run.refresh_from_db()
    message = run.alerts([])[0]["message"]
    assert message.startswith(says)
    assert "takes less time than at first" in message


def warm_started(run: Run, **latencies: float) -> Recorder:
    """A recorder that was told that tasks, `task0` for example, begin with another run's records of these latencies."""
    sources = [Begun(int(task[4:]), run.pk, latency_s) for task, latency_s in latencies.items()]
    warm = claimed(make_run())
    make_tasks(warm, 9)
    recorder = Recorder(warm)
    recorder.record([WarmStarted([one.task for one in sources], [run.pk], sources)])
    return recorder


def messages(run: Run) -> list[str]:
    run.refresh_from_db()
    return [alert["message"] for alert in run.alerts([]) if alert["kind"] == "warm_start"]


def test_known_records_that_are_slower_here_raise_one_alert() -> None:
    earlier = measured_run(noise=0.02)
    earlier.move("running", to="finished")
    recorder = warm_started(earlier, task3=10.9e-6, task7=1e-3, task8=1e-3)
    run = recorder.run
    Run.objects.filter(pk=run.pk).update(noise=0.02)
    recorder = Recorder(run)  # Another process of the run goes on.
    recorder.record([trial(3, 117e-6), trial(7, 1.2e-3), trial(8, 1.12e-3), trial(3, 10e-6)])
    figures = "117.0\u00a0µs instead of 10.90\u00a0µs for task 3"
    told = f"Tasks 3 and 7 measured slower here than in run {earlier.pk}: {figures}."
    assert messages(run) == [f"{told} This machine is busy or differs."]
    run.move("running", to="finished")
    assert messages(run)[0].endswith("This machine was busy or differs.")


def test_a_resumed_run_keeps_which_tasks_began_with_adapted_schedules() -> None:
    run = claimed(make_run())
    make_tasks(run, 3)
    Recorder(run).record([Adapted([0, 2], [7])])
    Recorder(run).record([Adapted([1], [5])])
    run.refresh_from_db()
    assert run.adapted == {"tasks": [0, 1, 2], "runs": [5, 7]}


def test_where_noise_is_not_known_only_much_slower_ones_count() -> None:
    earlier = measured_run()
    earlier.move("running", to="finished")
    recorder = warm_started(earlier, task0=1e-3, task1=1e-3, task2=1e-3)
    recorder.record([trial(0, 1.4e-3), trial(1, None)])
    assert messages(recorder.run) == []
    recorder.record([trial(1, 9e-3), trial(2, 1.6e-3)])
    assert messages(recorder.run) == [
        f"Task 2 measured slower here than in run {earlier.pk}: 1.600\u00a0ms instead of 1.000\u00a0ms. This machine is busy or differs."
    ]


def test_records_whose_weights_were_in_the_caches_say_nothing_of_cold_ones() -> None:
    earlier = measured_run(cold_bytes=4096)
    earlier.move("running", to="finished")
    recorder = warm_started(earlier, task0=1e-3)
    assert recorder.run.warm_start == {"tasks": [0], "runs": [earlier.pk]}
    recorder.record([trial(0, 9e-3)])
    assert messages(recorder.run) == []


def test_how_cold_weights_are_is_kept() -> None:
    run = claimed(make_run())
    Recorder(run).record([TasksExtracted(TARGET, task_infos(2), cold_bytes=44_700_000)])
    run.refresh_from_db()
    assert run.to_dict(tasks=[])["cold_bytes"] == 44_700_000


def test_how_cold_the_weights_of_each_task_are_is_kept() -> None:
    """An earlier version, which knew only the run's number, may have begun the run."""
    run = claimed(make_run())
    before = task_infos(2)
    Recorder(run).record([TasksExtracted(TARGET, before, cold_bytes=4096)])
    assert [task.to_dict()["cold_bytes"] for task in run.tasks.all()] == [None, None]
    now = [msgspec.structs.replace(info, cold_bytes=1024 * info.index) for info in before]
    delta = Recorder(run).record([TasksExtracted(TARGET, now, cold_bytes=2048)])
    assert [task["cold_bytes"] for task in delta["tasks"]] == [0, 1024]
    assert [task.to_dict()["cold_bytes"] for task in run.tasks.all()] == [0, 1024]
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    other = claimed(make_run())
    Recorder(other).record([TasksExtracted(TARGET, now, cold_bytes=2048)])
    assert [task.to_dict()["cold_bytes"] for task in other.tasks.all()] == [0, 1024]


def test_a_pool_may_measure_another_candidate_first() -> None:
    earlier = measured_run()
    earlier.move("running", to="finished")
    recorder = warm_started(earlier, task0=1e-3)
    recorder.run.machines_wanted = 2
    recorder.record([trial(0, 9e-3)])
    assert messages(recorder.run) == []


@pytest.mark.parametrize("number", [0, 2, 3])
def test_a_run_has_one_reference_which_is_a_trial_of_it(number: int) -> None:
    run = measured_run([(0, 1e-3), (1, 2e-3)])
    recorder = Recorder(run)
    recorder.record([ReferenceMeasured(1, 1e-3, 20.0)])
    with pytest.raises(EngineMisbehaved, match=f"trial {number} as its reference"):
        recorder.record([ReferenceMeasured(number, 1e-3, 40.0)])
    assert run.reference_measurements.count() == 1


def test_spare_tasks_are_counted_apart() -> None:
    run = claimed(make_run())
    infos = [msgspec.structs.replace(info, weight=0) if info.index == 2 else info for info in task_infos(3)]
    recorder = Recorder(run)
    recorder.record([TasksExtracted(TARGET, infos)])
    told = recorder.record([trial(0), trial(2)])["run"]
    assert (told["tasks_total"], told["tasks_spare"], told["tasks_chosen"], told["tasks_measured"]) == (2, 1, 2, 1)
    assert told["words"]["unknown"] == "unknown: 1 of 2 tasks not measured yet"
    told = recorder.record([Preferred(2, 0), trial(1)])["run"]
    assert (told["tasks_total"], told["tasks_spare"], told["tasks_measured"]) == (2, 1, 2)


def test_a_task_that_another_one_counts_instead_of_need_not_be_confirmed() -> None:
    run = measured_run([(0, 1e-3), (1, 2e-3)])
    run.tasks.filter(index=1).update(weight=0)
    delta = Recorder(run).record([Confirmed(0, [1], [[1.2e-3] * 5])])
    weight = run.tasks.get(index=0).weight or 0
    assert delta["run"]["confirmed_latency_s"] == pytest.approx(1.2e-3 * weight)
    assert delta["run"]["words"]["confirmed"] == ""


def test_the_best_records_are_confirmed_until_a_new_best_comes() -> None:
    run = measured_run([(0, 1.0e-3), (0, 1.1e-3), (1, 2e-3)])
    lucky, steady = [1.30e-3, 1.31e-3, 1.29e-3, 1.31e-3, 1.29e-3], [1.2e-3, 1.21e-3, 1.19e-3, 1.21e-3, 9e-3]
    recorder = Recorder(run)
    delta = recorder.record([Confirmed(0, [1, 2], [lucky, steady])])
    (task,) = delta["tasks"]
    assert (task["best_trial"], task["confirmed_trial"], task["confirmed_latency_s"]) == (1, 2, 1.21e-3)
    assert task["confirmed_times"] == 5
    assert task["confirmed_noise"] == pytest.approx(noise(steady))
    assert delta["run"]["confirmed_latency_s"] is None, "task 1 isn't confirmed"
    assert (delta["run"]["tasks_confirmed"], delta["run"]["words"]["confirmed"]) == (1, "1 of 2 tasks confirmed")
    recorder.record([Confirmed(1, [3], [[2.2e-3] * 5])])
    run.refresh_from_db()
    assert run.confirmed_latency_s == pytest.approx(1.21e-3 + 2 * 2.2e-3)
    assert run.trials_done == 3

    Recorder(run).record([trial(0, 1.05e-3), trial(1, 2.5e-3)])
    run.refresh_from_db()
    assert run.confirmed_latency_s is not None, "neither is better"
    Recorder(run).record([trial(0, 0.9e-3)])
    now = Run.objects.get(pk=run.pk)
    assert (now.confirmed_latency_s, now.tasks_confirmed) == (None, 1)
    assert list(run.tasks.values_list("confirmed_trial", "confirmed_noise")) == [(None, None), (3, 0.0)]


def test_what_is_confirmed_on_a_busy_machine_replaces_nothing_better() -> None:
    run = on(make_machine("lab-1"))
    make_tasks(run)
    recorder = Recorder(run)
    recorder.record([trial(0, 1e-3)])
    recorder.disturbed = frozenset({"lab-1"})

    def confirmed(latency_s: float, *events: Event) -> list[float | None]:
        slow = [Confirmed(0, [1], [[latency_s] * 5]), Confirmed(1, [2], [[latency_s] * 5])]
        recorder.record([*events, *slow])
        return list(run.tasks.values_list("confirmed_latency_s", flat=True))

    assert confirmed(4e-3, trial(1, 2e-3)) == [None, 4e-3], "the first trial was measured on an idle machine"
    assert confirmed(5e-3) == [None, 4e-3]
    recorder.disturbed = frozenset()
    assert confirmed(2.1e-3) == [2.1e-3, 2.1e-3]
    recorder.disturbed = frozenset({"lab-1"})
    assert confirmed(6e-3) == [2.1e-3, 2.1e-3]


@pytest.mark.parametrize("number", [2, 3, 9])
def test_only_the_best_of_the_task_are_confirmed(number: int) -> None:
    run = measured_run([(0, 1e-3), (0, None), (1, 2e-3)])
    with pytest.raises(EngineMisbehaved, match=f"trial {number}, which isn't among the best"):
        Recorder(run).record([Confirmed(0, [1, number], [[1e-3], [1e-3]])])
