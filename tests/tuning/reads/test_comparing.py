"""Compare runs: matching tasks, differences, caveats."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.world import TARGET, claimed, extracted, make_network, make_run, record_trials, task_infos
from tuning.engines.wire.protocol import TaskInfo, TasksExtracted, TensorInfo
from tuning.models import Run, Task
from tuning.reads.comparing import ComparisonDict, baseline_of, compare, runs_of, usable
from tuning.validation import Invalid
from tuning.wording import target_name
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db
FAST = ((0, 2e-3), (1, 3e-3), (0, 1e-3))
SLOW = ((1, 4e-3), (0, 2e-3), (0, 1.5e-3))


def measured(latencies: Any = FAST, infos: list[TaskInfo] | None = None, **values: Any) -> Run:
    """A finished run with these trials, by default of the usual two tasks."""
    run = claimed(make_run(**values))
    Recorder(run).record([TasksExtracted(target=TARGET, tasks=infos) if infos else extracted()])
    run.refresh_from_db()
    record_trials(run, latencies)
    run.move("running", to="finished", finished_at=timezone.now())
    return run


def compared(*runs: Run, baseline: Run | None = None) -> ComparisonDict:
    found = runs_of(None, ",".join(str(run.pk) for run in runs))
    return compare(found, baseline_of(found, baseline.pk if baseline else None))


def kinds(comparison: ComparisonDict) -> set[str]:
    return {caveat["kind"] for caveat in comparison["caveats"]}


def test_it_compares_runs_with_the_baseline() -> None:
    fast, slow = measured(), measured(SLOW)
    first, second = compared(fast, slow)["runs"]
    assert (first["run"]["id"], first["ratio"], first["difference_s"], first["caught_up"]) == (fast.pk, 1.0, 0.0, None)
    assert second["ratio"] == pytest.approx(9.5 / 7)
    assert second["difference_s"] == pytest.approx(2.5e-3)
    assert second["caught_up"] is None


def test_it_finds_when_a_run_caught_up_with_the_baseline() -> None:
    fast, slow = measured(((0, 1e-3), (1, 4e-3), (1, 3e-3), (1, 2e-3))), measured(SLOW)
    other = compared(fast, slow, baseline=slow)["runs"][0]
    assert other["estimate"]["latency_s"] == [pytest.approx(9e-3), pytest.approx(7e-3), pytest.approx(5e-3)]
    assert other["caught_up"] == {"number": 2, "at_s": 2.0}


def test_what_is_computed_by_different_algorithms_is_the_same_task() -> None:
    infos = task_infos(2)
    other = msgspec.structs.replace(
        infos[0], index=2, name="winograd", weight=0, workload_hash="f" * 16, computes=infos[0].workload_hash
    )
    direct, fastest = measured(), measured(((0, 3e-3), (1, 3e-3), (2, 1e-3)), [*infos, other])
    spare, preferred = fastest.tasks.get(index=0), fastest.tasks.get(index=2)
    Task.objects.filter(pk=preferred.pk).update(weight=spare.weight)
    Task.objects.filter(pk=spare.pk).update(weight=0)
    found = compared(direct, fastest)
    assert (found["common_tasks"], found["unmatched"]) == (2, [])
    by_hash = {task["workload_hash"]: task["cells"] for task in found["tasks"]}
    cells = by_hash[infos[0].workload_hash]
    assert [cell and (cell["task"], cell["name"], cell["latency_s"]) for cell in cells] == [
        (0, infos[0].name, 1e-3),
        (2, "winograd", 1e-3),
    ]
    assert found["runs"][1]["comparable"]
    swapped = compared(fastest, direct)
    assert {task["workload_hash"] for task in swapped["tasks"]} == by_hash.keys()


def test_it_sorts_tasks_by_contribution() -> None:
    fast, slow = measured(), measured(SLOW)
    comparison = compared(slow, fast)
    assert [task["name"] for task in comparison["tasks"]] == ["fused_matmul1", "fused_matmul0"]
    assert [task["contribution_s"] for task in comparison["tasks"]] == [8e-3, 1.5e-3]
    own, other = comparison["tasks"][0]["cells"]
    assert own is not None
    assert other is not None
    assert (own["ratio"], own["difference_s"]) == (1.0, 0.0)
    assert (other["latency_s"], other["total_s"], other["ratio"]) == (3e-3, 6e-3, 0.75)
    assert other["difference_s"] == pytest.approx(-2e-3)
    assert other["trials_share"] == pytest.approx(1 / 3)


def test_it_gives_no_difference_for_what_was_not_measured() -> None:
    fast, partial, nothing = measured(), measured(((0, 1e-3), (1, None))), measured(((0, None), (1, None)))
    comparison = compared(fast, partial, nothing)
    assert [run["ratio"] for run in comparison["runs"]] == [1.0, None, None]
    assert [run["common_s"] for run in comparison["runs"]] == [None, None, None]
    cells = next(task for task in comparison["tasks"] if task["name"] == "fused_matmul1")["cells"]
    assert [cell and cell["latency_s"] for cell in cells] == [3e-3, None, None]
    assert [cell and cell["difference_s"] for cell in cells] == [0.0, None, None]
    messages = [caveat["message"] for caveat in comparison["caveats"]]
    assert f"Run {partial.pk} has no estimated latency yet: 1 of 2 tasks are measured." in messages
    assert f"Run {nothing.pk} has no valid trial: all 2 have failed." in messages


def test_it_sums_the_tasks_that_all_have_measured() -> None:
    fast, partial = measured(), measured(((0, 3e-3),))
    comparison = compared(fast, partial)
    assert comparison["common_tasks"] == 1
    assert [run["common_s"] for run in comparison["runs"]] == [1e-3, 3e-3]


def test_it_tells_which_differences_are_within_noise() -> None:
    fast, slow = measured(), measured(SLOW)
    assert [run["within_noise"] for run in compared(fast, slow)["runs"]] == [None, None]
    Run.objects.filter(pk__in=(fast.pk, slow.pk)).update(noise=0.3)
    base, other = compared(fast, slow)["runs"]
    assert (base["noise"], base["within_noise"]) == (None, None)
    assert other["noise"] == pytest.approx(0.3 * 2**0.5)
    assert other["within_noise"], "9.5 ms beside 7 ms is 36 % more"
    cells = {task["name"]: task["cells"][1] for task in compared(fast, slow)["tasks"]}
    assert {name: cell and cell["within_noise"] for name, cell in cells.items()} == {
        "fused_matmul1": True,
        "fused_matmul0": False,
    }


def test_runs_share_what_both_have_measured() -> None:
    whole, part, nothing = measured(), measured(((0, 3e-3),)), measured(((0, None), (1, None)))
    assert [run["shared"] for run in compared(whole, part, nothing)["runs"]] == [
        None,
        {"tasks": 1, "total_s": 3e-3, "baseline_s": 1e-3},
        None,
    ]


def info(name: str, *shapes: list[int]) -> TaskInfo:
    args = [TensorInfo(f"p{number}", shape, "float32") for number, shape in enumerate(shapes)]
    return TaskInfo(index=0, name=name, weight=1, flop=1e6, workload_hash=name, args=args, tensorir="")


DATA, KERNEL, BIAS, OUTPUT = [1, 64, 56, 56], [128, 64, 3, 3], [1, 128, 1, 1], [1, 128, 28, 28]
CONV = info("fused_conv2d_add", DATA, KERNEL, BIAS, OUTPUT)
ONE = ((0, 1e-3),)


@pytest.mark.parametrize(
    ("other", "by"),
    [
        (info("fused_nn_conv2d", [1, 56, 56, 64], [3, 3, 64, 128], [1, 1, 1, 128], [1, 28, 28, 128]), ["shapes"]),
        (info("conv2d_nchw.x86", DATA, KERNEL), ["shapes"]),
        (info("conv2d_nchw.x86", DATA, [256, 64, 3, 3]), []),
        (info("relu", DATA), []),
    ],
)
def test_tasks_of_different_engines_are_matched_by_the_sizes_of_their_tensors(other: TaskInfo, by: list[str]) -> None:
    ours, theirs = measured(ONE, [CONV]), measured(ONE, [other], engine="autotvm")
    assert [task["matched_by"] for task in compared(ours, theirs)["tasks"]] == by


def test_tasks_of_one_engine_are_not_matched_by_shapes_alone() -> None:
    other = info("fused_nn_conv2d", *(arg.shape for arg in CONV.args))
    assert compared(measured(ONE, [CONV]), measured(ONE, [other]))["tasks"] == []


def test_all_tensors_alike_go_before_some_of_them() -> None:
    smaller = msgspec.structs.replace(info("a", DATA, KERNEL), index=0)
    whole = msgspec.structs.replace(info("b", DATA, KERNEL, BIAS, OUTPUT), index=1)
    theirs = measured(((0, 1e-3), (1, 2e-3)), [smaller, whole], engine="auto_scheduler")
    (task,) = compared(measured(ONE, [CONV]), theirs)["tasks"]
    assert [cell and cell["task"] for cell in task["cells"]] == [0, 1]


def test_it_matches_by_workload_then_by_name_and_shapes() -> None:
    again = [msgspec.structs.replace(info, workload_hash=f"f{info.index}") for info in task_infos(2)]
    renamed = [msgspec.structs.replace(info, name=f"other{info.index}") for info in task_infos(2)]
    comparison = compared(measured(), measured(infos=again), measured(infos=renamed))
    assert [(task["matched_by"], None in task["cells"]) for task in comparison["tasks"]] == [("name", False)] * 2
    by_workload = compared(measured(), measured(infos=renamed))["tasks"]
    assert [task["matched_by"] for task in by_workload] == ["workload", "workload"]


def test_it_lists_unmatched_tasks() -> None:
    wider = msgspec.structs.replace(task_infos(2)[1], workload_hash="f1", args=task_infos(1)[0].args[:1])
    other = measured(infos=[task_infos(1)[0], wider])
    comparison = compared(measured(), other)
    assert [task["name"] for task in comparison["tasks"]] == ["fused_matmul0"]
    assert [(lone["name"], lone["cell"]["latency_s"]) for lone in comparison["unmatched"]] == [
        ("fused_matmul1", 3e-3)
    ] * 2
    assert {lone["run"] for lone in comparison["unmatched"]} == {run["run"]["id"] for run in comparison["runs"]}


def test_it_matches_repeated_workloads_in_order() -> None:
    first = task_infos(1)[0]
    infos = [first, msgspec.structs.replace(first, index=1)]
    comparison = compared(measured(infos=infos), measured(infos=infos), measured(((0, 1e-3),), infos=[first]))
    assert [[cell and cell["task"] for cell in task["cells"]] for task in comparison["tasks"]] in (
        [[0, 0, 0], [1, 1, None]],
        [[1, 1, None], [0, 0, 0]],
    )


def test_it_lists_only_options_that_differ() -> None:
    first = measured(options={"seed": 1, "trials_per_batch": 16}, versions={"apache-tvm": "0.27.0"})
    second = measured(options={"seed": 2, "trials_per_batch": 16, "first_trials": None}, trials_budget=32)
    options = {option["name"]: (option["values"], option["recorded"]) for option in compared(first, second)["options"]}
    assert options == {
        "options.seed": ([1, 2], [True, True]),
        "options.first_trials": ([None, None], [False, True]),
        "versions.apache-tvm": (["0.27.0", None], [True, False]),
        "trials_budget": ([64, 32], [True, True]),
    }


def test_runs_that_found_their_weights_elsewhere_compare_less() -> None:
    cold, other, warm, unknown = (measured() for _ in range(4))
    for run, cold_bytes in ((cold, 4096), (other, 1024), (warm, 0)):
        Run.objects.filter(pk=run.pk).update(cold_bytes=cold_bytes)
    assert "weights" not in kinds(compared(cold, other, unknown))
    (message,) = [one["message"] for one in compared(cold, warm)["caveats"] if one["kind"] == "weights"]
    assert message.startswith(
        f"Different states of the weights: as cold as in the network (run {cold.pk}), in the caches (run {warm.pk})."
    )


def test_a_head_start_by_schedules_of_other_shapes_is_told() -> None:
    earlier, run = measured(), measured()
    Run.objects.filter(pk=run.pk).update(adapted={"tasks": [0], "runs": [earlier.pk]})
    (message,) = [one["message"] for one in compared(earlier, run)["caveats"] if one["kind"] == "adapted"]
    assert message.endswith(f"1 of its tasks began with schedules for other shapes, of run {earlier.pk}.")


def test_it_lists_caveats() -> None:
    alike = measured(), measured()
    assert kinds(compared(*alike)) == set()
    first = measured(versions={"apache-tvm": "0.19.0"}, synthetic=True)
    second = measured(network=make_network(), device="rpc:1", engine="another", versions={"apache-tvm": "0.27.0"})
    Run.objects.filter(pk=second.pk).update(
        target={"kind": "cuda"}, target_fingerprint="x", warm_start={"tasks": [0], "runs": [first.pk]}, tasks_chosen=1
    )
    different = compared(first, second)
    assert kinds(different) == {"network", "target", "device", "engine", "tvm", "synthetic", "warm_start", "chosen"}
    messages = {caveat["kind"]: caveat["message"] for caveat in different["caveats"]}
    assert messages["network"].startswith(f"Different networks: mlp batch=1 (run {first.pk}), net (run {second.pk}).")
    heavier = [msgspec.structs.replace(info, weight=9) for info in task_infos(2)]
    assert kinds(compared(measured(), measured(infos=heavier))) == {"weight"}


def test_a_run_on_a_busy_machine_is_told_of() -> None:
    quiet, busy = measured(), measured()

    def told(noisy: int) -> list[str]:
        Run.objects.filter(pk=busy.pk).update(trials_done=320, trials_budget=320, trials_noisy=noisy)
        busy.refresh_from_db()
        return [one["message"] for one in compared(quiet, busy)["caveats"] if one["kind"] == "noisy"]

    how = "were measured while other processes used the machine, so its latencies may be too high."
    assert told(80) == []
    assert told(81) == [f"81 of the 320 trials of run {busy.pk} {how}"]
    assert told(320) == [f"All 320 trials of run {busy.pk} {how}"]


def test_targets_of_the_same_name_are_told_apart() -> None:
    first, second = measured(), measured()
    Run.objects.filter(pk=second.pk).update(target=first.target | {"num-cores": 64}, target_fingerprint="x")
    first.refresh_from_db()
    (caveat,) = compared(first, second)["caveats"]
    name, cores = target_name(first.target), first.target.get("num-cores")
    own = "no num-cores" if cores is None else f"num-cores {cores}"
    assert caveat["message"].startswith(
        f"Different targets: {name} ({own}) (run {first.pk}), {name} (num-cores 64) (run {second.pk})."
    )


def test_without_weights_there_will_be_no_estimate() -> None:
    first, second = measured(((0, 1e-3),)), measured(((0, 1e-3),))
    first.tasks.update(weight=None)
    messages = [caveat["message"] for caveat in compared(first, second)["caveats"] if caveat["kind"] == "no_estimate"]
    assert messages == [
        f"Run {first.pk} has no estimated latency: the weights of its tasks aren't recorded.",
        f"Run {second.pk} has no estimated latency yet: 1 of 2 tasks are measured.",
    ]


def test_it_does_not_compare_totals_of_different_tasks() -> None:
    whole, elsewhere, part = measured(), measured(network=make_network()), measured()
    part.tasks.filter(index=1).update(chosen=False)
    Run.objects.filter(pk=part.pk).update(tasks_chosen=1)
    comparison = compared(whole, elsewhere, part)
    assert [(run["comparable"], run["ratio"]) for run in comparison["runs"]] == [
        (True, 1.0),
        (False, None),
        (False, None),
    ]
    assert [run["difference_s"] for run in comparison["runs"]] == [0.0, None, None]
    cells = comparison["tasks"][0]["cells"]
    assert [cell and cell["ratio"] for cell in cells] == [1.0, 1.0, 1.0]


def test_the_speed_covers_the_whole_run() -> None:
    run = measured([(number % 2, 1.0 / number) for number in range(1, 201)], trials_budget=200)
    speed = compared(run, measured())["runs"][0]["speed"]
    assert speed["number"] == list(range(16, 200, 16))
    assert speed["speed"] == [pytest.approx(1.0)] * len(speed["speed"])


def test_it_compares_a_run_that_has_not_begun() -> None:
    waiting = make_run()
    comparison = compared(measured(), waiting)
    assert comparison["runs"][1]["estimate"]["number"] == comparison["runs"][1]["speed"]["number"] == []
    assert kinds(comparison) == {"no_trial"}
    assert len(comparison["unmatched"]) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Choose 2 to 8 runs."),
        ("{0}", "Choose 2 to 8 runs, not 1."),
        ("1,2,3,4,5,6,7,8,9", "Choose 2 to 8 runs, not 9."),
        ("{0},{0}", "Run {0} is listed twice."),
        ("{0},99999", "There is no run 99999. It may have been deleted."),
        ("99998,99999", "There are no runs 99998 and 99999. They may have been deleted."),
        ("{0},x", "“x” is not a run number. Write them as in runs=1,2."),
        ("{0},-1", "“-1” is not a run number. Write them as in runs=1,2."),
        ("{0},٣", "“٣” is not a run number. Write them as in runs=1,2."),
        ("{0}," + "9" * 40, "“" + "9" * 40 + "” is not a run number. Write them as in runs=1,2."),
        ("{0},\0", "“\0” is not a run number. Write them as in runs=1,2."),
    ],
)
def test_it_refuses_invalid_choices(text: str, said: str) -> None:
    run = measured()
    with pytest.raises(Invalid) as refused:
        runs_of(None, text.format(run.pk))
    assert refused.value.fields == {"runs": said.format(run.pk)}


def test_the_baseline_must_be_one_of_the_runs() -> None:
    runs = [measured(), measured()]
    with pytest.raises(Invalid, match="is not one of the compared runs"):
        baseline_of(runs, measured().pk)


def test_it_finds_the_usable_runs_of_an_invalid_choice() -> None:
    keys = [measured().pk for _ in range(10)]
    assert usable(None, f"{keys[1]},x,{keys[0]},{keys[1]},99999, {'9' * 40}") == [keys[1], keys[0]]
    assert usable(None, ",".join(map(str, keys))) == keys[:8]


def test_the_number_of_queries_does_not_depend_on_the_tasks(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    runs = [measured(), measured(infos=task_infos(20))]
    with django_assert_max_num_queries(
        7
    ):  # runs, tasks, two for the trials of each run, and what was measured side by side
        compared(*runs)
