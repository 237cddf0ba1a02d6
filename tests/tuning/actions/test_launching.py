"""Launch, stop and resume runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import claimed, make_run, make_user, measured_run
from tuning.actions import launching, runs
from tuning.host import targets
from tuning.models import Network, Run
from tuning.queue import jobs
from tuning.reads import network_list
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db
THIS = {
    "target": {"kind": "llvm", "mcpu": "znver4", "num-cores": 2},
    "device": "cpu",
    "label": "llvm · znver4 · 2 cores",
}


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of enqueued runs. Targets are resolved without TVM."""
    told: list[int] = []
    monkeypatch.setattr(jobs, "enqueue", lambda run: told.append(run.pk))
    monkeypatch.setattr(targets, "resolve", lambda target: THIS)
    return told


def test_it_stores_and_enqueues_a_run(enqueued: list[int]) -> None:
    user = make_user()
    given = {"network": "matmul", "network_options": {"n": 64}, "target": "this", "trials": 8, "trials_per_batch": 4}
    run = runs.launch(given | {"seed": 7}, user)
    assert (run.status, run.trials_budget, run.created_by, run.device) == ("queued", 8, user, "cpu")
    assert (run.network_name, run.network_options) == ("matmul", {"n": 64, "dtype": "float32"})
    assert run.options["trials_per_batch"] == 4
    assert run.options["seed"] == 7
    assert run.target == THIS["target"]
    assert enqueued == [run.pk]


def test_it_accepts_strings_from_forms() -> None:
    run = runs.launch({"network": "mlp", "trials": "32", "seed": "", "name": " first ", "number": "5"}, None)
    assert (run.trials_budget, run.name, run.options["number"]) == (32, "first", 5)


def test_it_draws_and_stores_a_seed() -> None:
    seeds = {runs.launch({"network": "mlp"}, None).options["seed"] for _ in range(3)}
    assert len(seeds) == 3
    assert all(isinstance(seed, int) for seed in seeds)


def test_the_default_name_has_the_network_and_changed_options() -> None:
    assert runs.launch({"network": "mlp"}, None).name == "mlp"
    assert runs.launch({"network": "matmul", "network_options": {"n": 64}}, None).name == "matmul n=64"


def test_equal_networks_are_stored_once() -> None:
    for _ in range(2):
        runs.launch({"network": "matmul", "network_options": {"n": 64}}, None)
    runs.launch({"network": "matmul", "network_options": {"n": 65}}, None)
    assert Network.objects.count() == 2


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"network": "resnet-99"}, "network", "resnet-18"),
        ({"network": ""}, "network", "Choose"),
        ({"network": ["mlp"]}, "network", "There is no network"),
        ({"network_options": {"n": 0}}, "network_options.n", "from 1 to"),
        ({"network_options": {"m": 1}}, "network_options.m", "no such option"),
        ({"network_options": [1]}, "network_options", "object"),
        ({"network_options": False}, "network_options", "object"),
        ({"trials": 0}, "trials", "from 1 to 1,000,000"),
        ({"trials": -5}, "trials", "not '-5'"),
        ({"trials": 10**9}, "trials", "1,000,000"),
        ({"trials": "many"}, "trials", "whole number"),
        ({"trials": 1.5}, "trials", "whole number"),
        ({"trials": True}, "trials", "whole number"),
        ({"trials": None}, "trials", "whole number"),
        ({"trials_per_batch": 0}, "trials_per_batch", "from 1 to 1,024"),
        ({"strategy": "magic"}, "strategy", "evolutionary, replay-trace, replay-func"),
        ({"build_timeout_s": "nan"}, "build_timeout_s", "above 0"),
        ({"trails": 8}, "trails", "no such option"),
        ({"name": "two\nlines"}, "name", "one line"),
        ({"name": "x" * 201}, "name", "200"),
        ({"name": {"first": "x"}}, "name", "one line"),
        ({"target": 7}, "target", "tag"),
    ],
)
def test_it_refuses_bad_input_by_name_and_stores_nothing(
    given: dict[str, Any], field: str, says: str, enqueued: list[int]
) -> None:
    with pytest.raises(Invalid) as refused:
        runs.launch({"network": "matmul", "target": "this", "trials": 8} | given, None)
    assert list(refused.value.fields) == [field]
    assert says in refused.value.fields[field]
    assert not Run.objects.exists()
    assert not Network.objects.exists()
    assert enqueued == []


def test_it_names_every_field_at_fault_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        runs.launch({"network": "matmul", "network_options": {"n": 0}, "trials": 0, "repeat": 0, "x": 1}, None)
    assert set(refused.value.fields) == {"network_options.n", "trials", "repeat", "x"}


def test_it_refuses_a_target_that_no_worker_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "resolve", lambda target: THIS | {"device": "cuda:0"})
    with pytest.raises(Invalid, match="no worker serves"):
        runs.launch({"network": "mlp"}, None)


def test_it_offers_what_it_accepts() -> None:
    options = {option["name"]: option for option in launching.tuning_options()}
    assert (options["trials_per_batch"]["minimum"], options["trials_per_batch"]["maximum"]) == (1, 1024)
    assert options["strategy"]["choices"] == ["evolutionary", "replay-trace", "replay-func"]
    assert options["seed"]["optional"]
    assert all(option["title"] and option["description"] for option in options.values())
    assert {network["name"] for network in network_list.networks(None)} >= {"mlp", "matmul", "resnet-18"}


def test_stop_ends_a_queued_run_at_once() -> None:
    run = runs.stop(make_run())
    assert run.status == "stopped"
    assert run.finished_at is not None


def test_stop_asks_a_running_run_to_end() -> None:
    assert runs.stop(claimed(make_run())).status == "stopping"


@pytest.mark.parametrize("status", ["stopping", "finished", "stopped", "failed", "interrupted"])
def test_stop_refuses_a_run_that_has_ended(status: str) -> None:
    with pytest.raises(Conflict, match=status):
        runs.stop(make_run(status=status))


@pytest.mark.parametrize("status", ["stopped", "failed", "interrupted"])
def test_resume_keeps_the_trials(status: str, enqueued: list[int]) -> None:
    run = measured_run()
    Run.objects.filter(pk=run.pk).update(status=status, error="why")
    run = runs.resume(Run.objects.get(pk=run.pk))
    assert (run.status, run.error, run.trials_done) == ("queued", None, 3)
    assert enqueued == [run.pk]


@pytest.mark.parametrize("status", ["queued", "running", "stopping", "finished"])
def test_resume_refuses_what_did_not_end_early(status: str) -> None:
    with pytest.raises(Conflict, match=status):
        runs.resume(make_run(status=status))


def test_resume_refuses_a_run_whose_budget_is_spent() -> None:
    with pytest.raises(Conflict, match="nothing to resume"):
        runs.resume(make_run(status="stopped", trials_done=64))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"tasks": "0, 3,5"}, {"tasks": [0, 3, 5]}),
        ({"tasks": [2]}, {"tasks": [2]}),
        ({"tasks": ""}, {"tasks": None}),
        ({"warm_start": "false"}, {"warm_start": False}),
        ({"warm_start": False}, {"warm_start": False}),
        ({"plateau_trials": "64", "plateau_percent": "2.5"}, {"plateau_trials": 64, "plateau_percent": 2.5}),
        ({"strategy": "replay-func", "cost_model": "none"}, {"cost_model": "none"}),
    ],
)
def test_it_accepts_options_as_text_and_as_json(given: dict[str, Any], kept: dict[str, Any]) -> None:
    run = runs.launch({"network": "mlp", **given}, None, enqueue=False)
    assert {name: run.options[name] for name in kept} == kept


def test_it_keeps_the_time_limit() -> None:
    assert runs.launch({"network": "mlp", "time_limit_s": "90"}, None, enqueue=False).time_limit_s == 90.0
    assert runs.launch({"network": "mlp"}, None, enqueue=False).time_limit_s is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"tasks": []}, "tasks"),
        ({"tasks": "1, x"}, "tasks"),
        ({"tasks": [-1]}, "tasks"),
        ({"tasks": 3}, "tasks"),
        ({"warm_start": "perhaps"}, "warm_start"),
        ({"plateau_trials": 0}, "plateau_trials"),
        ({"plateau_percent": 100}, "plateau_percent"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"time_limit_s": "nan"}, "time_limit_s"),
        ({"cost_model": "none"}, "cost_model"),
        ({"cost_model": "mlp"}, "cost_model"),
    ],
)
def test_it_names_the_option_at_fault(given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        runs.launch({"network": "mlp", **given}, None, enqueue=False)
    assert list(refused.value.fields) == [field]
