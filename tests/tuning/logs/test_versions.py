"""Records of each format and version, as far as it tells."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuning.logs import examples
from tuning.logs.lines import LineParser
from tuning.logs.neutral import TensorInfo, Trial


@pytest.mark.parametrize("name", examples.EVERY_VERSION)
def test_it_reads_every_version(name: str) -> None:
    log, found = examples.read(examples.EVERY_VERSION[name])
    (trial,) = examples.trials(found)
    assert trial.latency_s == pytest.approx(sum(trial.costs) / len(trial.costs))
    assert trial.error_kind is None
    assert trial.record.decode() == examples.EVERY_VERSION[name]
    assert (log.lines, log.records, log.bad) == (1, 1, 0)
    assert not [remark for remark in log.remarks if "version" in remark.text]


@pytest.mark.parametrize("name", examples.EVERY_VERSION)
def test_the_order_of_keys_changes_nothing(name: str) -> None:
    line = examples.EVERY_VERSION[name]
    turned = json.dumps(reversed_keys(json.loads(line)))
    before, after = examples.read(line)[0], examples.read(turned)[0]
    assert before.digest() == after.digest()
    assert list(before.tasks) == list(after.tasks)


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("version", "host", "shapes", "name"),
    [
        ("v0.2", None, [], "matmul_add"),
        ("v0.3", None, [], None),
        ("v0.4", {"kind": "llvm", "keys": ["cpu"]}, [], None),
        ("v0.5", None, [], None),
        ("v0.6", None, [(1, 1280), (1000, 1280), (1, 1000)], None),
    ],
)
def test_it_tells_what_a_workload_key_tells(
    version: str, host: Any, shapes: list[tuple[int, ...]], name: str | None
) -> None:
    log, _ = examples.read(examples.auto_scheduler(version))
    (task,) = log.tasks.values()
    assert task.target is not None
    assert task.target.get("host") == host
    assert task.args == tuple(TensorInfo(None, shape, None) for shape in shapes)
    assert (task.name, task.flop, task.weight) == (name, None, None)
    assert task.workload == json.loads(examples.AUTO_SCHEDULER_TASKS[version][0])


def test_a_task_is_told_by_its_length_rather_than_the_version() -> None:
    """Converted files keep the one or the other."""
    record = json.loads(examples.auto_scheduler("v0.4")) | {"v": "v0.6"}
    log, found = examples.read(json.dumps(record))
    assert len(examples.trials(found)) == 1
    assert [task.target and task.target["host"]["kind"] for task in log.tasks.values()] == ["llvm"]


def test_an_autotvm_task_tells_tensors_and_flop() -> None:
    log, _ = examples.read(examples.autotvm())
    (task,) = log.tasks.values()
    assert task.args == (
        TensorInfo(None, (1, 512, 7, 7), "float32"),
        TensorInfo(None, (512, 512, 3, 3), "float32"),
    )
    assert (task.flop, task.flop_derived) == (2 * 512 * 7 * 7 * 512 * 9, True)
    assert task.target == {"kind": "cuda", "model": "v100"}
    assert log.tvm_version == "0.9.dev0"


def test_both_versions_of_autotvm_are_one_log() -> None:
    log, found = examples.read(examples.old_autotvm(), examples.autotvm(), examples.old_autotvm("winograd"))
    assert [trial.number for trial in examples.trials(found)] == [1, 2, 3]
    # One task mixes templates.
    assert [each.name for each in log.tasks.values()] == ["topi_nn_conv2d", "conv2d_nchw.cuda"]


def test_a_task_on_another_target_is_another_task_of_the_same_workload() -> None:
    log, _ = examples.read(examples.autotvm(), examples.autotvm(target="llvm -mcpu=skylake"))
    first, second = log.tasks.values()
    assert first.workload_hash == second.workload_hash
    assert first.key != second.key
    assert len(first.workload_hash) <= 64


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (examples.auto_scheduler("v0.7"), "version v0.7 is unknown; read as v0.6"),
        (examples.autotvm().replace('"version": 0.2', '"version": 0.3'), "version 0.3 is unknown; read as 0.2"),
        (examples.old_autotvm().replace('"v": 0.1', '"v": 0.15'), "version 0.15 is unknown; read as 0.1"),
        (examples.autotvm().replace(', "version": 0.2', ""), "no version is recorded; read as 0.2"),
    ],
)
def test_an_unknown_version_is_read_as_the_nearest_and_said_once(line: str, said: str) -> None:
    log, found = examples.read(examples.auto_scheduler() if "v0.7" in line else examples.autotvm(), line, line)
    assert len(examples.trials(found)) == 3
    assert [(remark.text, remark.line) for remark in log.remarks] == [(said, 2)]


@pytest.mark.parametrize("error", range(1, 9))
def test_errors_have_kinds(error: int) -> None:
    kinds = ["instantiation", "build", "build", "run", "wrong_answer", "build_timeout", "run_timeout", "unknown"]
    for line in (examples.auto_scheduler(costs=[1e10], error=error), examples.autotvm(costs=[1e9], error=error)):
        (trial,) = examples.trials(examples.read(line)[1])
        assert (trial.error_kind, trial.error_no, trial.latency_s, trial.costs) == (kinds[error - 1], error, None, ())


def test_autotvms_fleet_error_was_a_run_that_failed() -> None:
    old, new = (examples.old_autotvm(costs=[1e9], error=6, at=at) for at in (1_530_000_000, 1_600_000_000))
    kinds = [trial.error_kind for trial in examples.trials(examples.read(old, new)[1])]
    assert kinds == ["run", "build_timeout"]


@pytest.mark.parametrize(
    "costs", ["[NaN]", "[0.001, NaN]", "[Infinity]", "[-Infinity]", "[nan]", "[inf]", "[]", "[-1.0]"]
)
@pytest.mark.parametrize(
    "line", [examples.auto_scheduler(costs="X"), examples.autotvm(costs="X"), examples.meta_schedule(costs="X")]
)
def test_a_cost_that_is_no_number_of_seconds_is_no_latency(line: str, costs: str) -> None:
    line = line.replace('"X"', costs)
    (trial,) = examples.trials(examples.read(line)[1])
    assert trial.latency_s is None
    assert trial.error_kind == ("not_recorded" if costs == "[]" and line.startswith("[") else "no_latency")
    assert trial.record.decode() == line


@pytest.mark.parametrize("costs", [[1e10], [], None])
def test_meta_schedule_doesnt_tell_why_a_trial_failed(costs: Any) -> None:
    (trial,) = examples.trials(examples.read(examples.meta_schedule(costs=costs))[1])
    assert (trial.error_kind, trial.error_no, trial.error, trial.timestamp) == ("not_recorded", None, None, None)


def test_a_growing_file_is_parsed_line_by_line() -> None:
    parser = LineParser("growing.json")
    assert parser.parse_line(b"# a comment\n") is None
    engines = [parser.engine]
    trial = parser.parse_line(examples.auto_scheduler().encode() + b"\n")
    assert isinstance(trial, Trial)
    assert (trial.number, trial.line) == (1, 2)
    assert [*engines, parser.engine] == [None, "auto_scheduler"]
    assert parser.digest() == examples.read(examples.auto_scheduler())[0].digest()
