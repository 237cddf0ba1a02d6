"""Real logs of TVM 0.7 to 0.27 against facts about them that were computed without this code."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.tuning.logs import real
from tuning.logs.neutral import Trial
from tuning.logs.opening import Log, open_logs
from tuning.logs.sources import sources
from tuning.logs.workloads import parsed
from tuning.logs.writing import distill, write

pytestmark = real.needed


def expected() -> dict[str, dict[str, Any]]:
    """The facts by file; none where the files are absent."""
    path = real.FOLDER / "expected.json"
    return json.loads(path.read_text()) if path.exists() else {}


def files(*, workloads: bool) -> list[str]:
    return [name for name, facts in expected().items() if ("ms-workload" in facts["kinds"]) == workloads] or ["none"]


def opened(name: str) -> Log:
    """The log of a file, opened with all that lies in its folder."""
    logs = open_logs(sources(real.FOLDER / Path(name).parent)).logs
    return next(log for log in logs if log.name == Path(name).name)


def trials_of(log: Log) -> list[Trial]:
    return [each for batch in log.batches() for each in batch if isinstance(each, Trial)]


@pytest.fixture(scope="module", params=files(workloads=False))
def read(request: pytest.FixtureRequest) -> tuple[Log, list[Trial], dict[str, Any]]:
    log = opened(request.param)
    return log, trials_of(log), expected()[request.param]


Read = tuple[Log, list[Trial], dict[str, Any]]


def test_it_counts_lines(read: Read) -> None:
    log, trials, facts = read
    assert (log.lines, log.blank, log.comments, log.bad) == (facts["lines"], facts["blank"], facts["comments"], 0)
    assert (log.records, len(trials)) == (facts["records"], facts["records"])
    assert [trial.number for trial in trials] == list(range(1, facts["records"] + 1))


def test_it_tells_valid_trials_from_failures(read: Read) -> None:
    log, trials, facts = read
    assert sum(trial.latency_s is not None for trial in trials) == facts["valid"]
    assert sum(trial.error_kind is not None for trial in trials) == facts["failed"]
    if log.engine != "meta_schedule":
        assert Counter(str(trial.error_no) for trial in trials) == facts["errors"]


def test_it_tells_engines_and_versions(read: Read) -> None:
    log, _, facts = read
    engines = {"ansor": "auto_scheduler", "autotvm-0.2": "autotvm", "ms-record": "meta_schedule"}
    assert [engines[kind] for kind in facts["kinds"]] == [log.engine]
    assert [remark for remark in log.remarks if "version" in remark.text] == []
    if log.engine == "autotvm":
        assert list(facts["versions"]) == [f"(0.2, {log.tvm_version!r})"]


def test_it_has_all_costs(read: Read) -> None:
    _, trials, facts = read
    # A failure's only cost stands for none.
    costs = Counter(str(len(trial.costs) or 1) for trial in trials)
    assert costs == facts["costs_per_record"]
    assert all(trial.latency_s == pytest.approx(sum(trial.costs) / len(trial.costs)) for trial in trials if trial.costs)


def test_it_has_the_best_of_each_task(read: Read) -> None:
    log, trials, facts = read
    assert len(log.tasks) == facts["distinct_tasks"]
    per_task = by_task(trials)
    found = [summary(per_task[key]) for key in log.tasks]
    assert Counter(found) == Counter(wanted(each) for each in facts["tasks"])
    bests = [trial.latency_s for trial in distill(trials) if trial.latency_s is not None]
    assert sum(bests) == pytest.approx(facts["sum_of_best"])
    assert len(log.tasks) - len(bests) == facts["tasks_never_valid"]


def by_task(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    found = defaultdict(list)
    for trial in trials:
        found[trial.task].append(trial)
    return found


def summary(trials: list[Trial]) -> tuple[int, int, str]:
    latencies = [trial.latency_s for trial in trials if trial.latency_s is not None]
    return len(trials), len(latencies), digits(min(latencies, default=None))


def wanted(task: dict[str, Any]) -> tuple[int, int, str]:
    return task["records"], task["valid"], digits(task["best_latency_s"])


def digits(seconds: float | None) -> str:
    """Twelve digits: the order of a sum's terms decides the last ones."""
    return "none" if seconds is None else f"{seconds:.12g}"


def test_it_has_the_tasks_of_the_facts(read: Read) -> None:
    """Not only as many: the same, each with its own numbers."""
    log, trials, facts = read
    found = {name_in_facts(log, of_task[0]): summary(of_task) for of_task in by_task(trials).values()}
    assert found == {str(each["task"]): wanted(each) for each in facts["tasks"]}


def name_in_facts(log: Log, trial: Trial) -> str:
    """A task as the facts name it: by what stands in its records."""
    line = msgspec.json.decode(trial.record)
    if log.engine == "meta_schedule":
        return str(line[0])
    return json.dumps(line["i"][0][:2] if log.engine == "auto_scheduler" else line["input"][:3])


def test_it_has_the_times(read: Read) -> None:
    log, trials, facts = read
    if log.engine == "meta_schedule":
        pytest.skip("MetaSchedule's records have no times")
    times = [trial.timestamp for trial in trials if trial.timestamp is not None]
    assert [min(times), max(times)] == facts["timestamps"]
    assert sum(after < before for before, after in pairwise(times)) == facts["timestamps_going_back"]


def test_its_records_are_the_files_lines(read: Read) -> None:
    log, trials, facts = read
    candidates = Counter(candidate(log.engine, trial.record) for trial in trials)
    assert sum(count - 1 for count in candidates.values()) == facts["duplicate_candidates"]


def candidate(engine: str, record: bytes) -> bytes:
    line = msgspec.json.decode(record)
    if engine == "auto_scheduler":
        return msgspec.json.encode(line["i"])
    if engine == "autotvm":
        return msgspec.json.encode([line["input"], line["config"]["entity"]])
    return msgspec.json.encode([line[0], line[1][0]])


def test_a_round_trip_is_equal(read: Read) -> None:
    log, trials, _ = read
    trials = trials[:2000]
    records, workloads = io.BytesIO(), io.BytesIO()
    pairs = [(trial, log.tasks[trial.task]) for trial in trials]
    write(pairs, log.engine, records, workloads if log.engine == "meta_schedule" else None)
    assert records.getvalue().splitlines() == [trial.record for trial in trials]


@pytest.mark.parametrize("name", files(workloads=True))
def test_it_decodes_every_workload(name: str) -> None:
    lines = (real.FOLDER / name).read_bytes().splitlines()
    assert len(lines) == expected()[name]["lines"]
    for line in lines:
        workload = parsed(line)
        assert workload.args
        assert workload.tvm_version


def test_a_work_directory_tells_names_flop_weights_and_errors() -> None:
    log = opened("ms_tvm027_selfmade/database_tuning_record.json")
    trials = trials_of(log)
    assert [(task.name, task.flop, task.weight) for task in log.tasks.values()] == [
        ("mm64", 528384, 1),
        ("mm96", 1778688, 1),
    ]
    assert Counter((trial.error_kind, trial.error) for trial in trials if trial.error_kind) == {
        ("build", "injected failure"): 6
    }
    assert None not in {trial.timestamp for trial in trials}


def test_a_console_tells_names_of_workloads_measured_twice() -> None:
    log = opened("ms_bennu_a100_resnet34/database_tuning_record.json.gz")
    trials_of(log)
    tasks = list(log.tasks.values())
    assert len({task.name for task in tasks}) == len(tasks) == 20
    assert sum(task.weight or 0 for task in tasks) == 41
    assert tasks[0].flop == 12870144
