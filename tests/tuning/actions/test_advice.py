"""Warnings about a launch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.world import TARGET, make_machine, make_run, task_infos
from tuning.actions import advice, runs
from tuning.actions.advice import CheckDict
from tuning.actions.networks.chosen import stored
from tuning.host import targets
from tuning.host.machine import identity
from tuning.models import Extraction, Run
from tuning.validation import Invalid

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def resolved(monkeypatch: pytest.MonkeyPatch) -> targets.TargetDict:
    """The resolved target, without asking TVM."""
    answer: targets.TargetDict = {
        "target": TARGET,
        "device": "cpu",
        "label": "llvm · znver4 · 2 cores",
        "float16": True,
    }
    monkeypatch.setattr(targets, "resolve", lambda _target: answer)
    return answer


def matmul(**values: Any) -> Run:
    """A run of the network that `check` launches, with 18 tasks."""
    network = stored("matmul", {"n": 64, "dtype": "float32"}, None)
    return make_run(**{"network": network, "tasks_total": 18, "tasks_chosen": 18, **values})


def check(**given: Any) -> CheckDict:
    return advice.check({"network": "matmul", "network_options": {"n": 64}, "trials": 10, **given}, None)


def test_a_valid_launch_has_no_warnings() -> None:
    checked = check()
    assert (checked["fields"], checked["warnings"], checked["target"]) == ({}, {}, "llvm · znver4 · 2 cores")


def test_it_lists_the_errors_of_a_launch() -> None:
    checked = check(trials=0, tasks="", strategy="luck")
    assert set(checked["fields"]) == {"trials", "strategy"}
    assert not Run.objects.exists()


def test_it_warns_of_fewer_trials_than_tasks_of_an_earlier_run() -> None:
    run = matmul()
    assert check()["warnings"] == {
        "trials": f"10 trials can't measure each of 18 tasks (as in run {run.pk}): there will be no estimate."
    }
    assert check(trials=18)["warnings"] == {}
    assert check(tasks=[0, 3, 3])["warnings"] == {}


def test_it_never_guesses_the_number_of_tasks() -> None:
    matmul(target=TARGET | {"mcpu": "znver5"})
    assert check()["warnings"] == {}
    assert check(network_options={"n": 128})["warnings"] == {}


def test_the_number_of_tasks_can_come_from_an_extraction() -> None:
    extraction = Extraction.objects.create(
        network=matmul(tasks_total=0).tuned_network, target=TARGET, status="finished"
    )
    for info in task_infos(12):
        extraction.tasks.create(
            index=info.index, name=info.name, weight=1, flop=info.flop, workload_hash=info.workload_hash
        )
    assert "12 tasks (as extracted)" in check()["warnings"]["trials"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"trials": 480}, "18 tasks × 4 = 72 trials before scheduling begins."),
        ({"trials": 320}, "18 tasks × 2 = 36 trials before scheduling begins."),
        ({"trials": 320, "first_trials": 16}, "18 tasks × 16 = 288 trials before scheduling begins."),
        (
            {"trials": 320, "first_trials": 16, "trials_per_batch": 8},
            "18 tasks × 8 = 144 trials before scheduling begins.",
        ),
        ({"trials": 320, "tasks": [0, 5]}, "2 tasks × 4 = 8 trials before scheduling begins."),
        ({"trials": 320, "tasks": [3]}, ""),
        ({"trials": 17}, ""),
    ],
)
def test_it_says_how_large_the_first_pass_is(given: dict[str, Any], words: str) -> None:
    matmul()
    assert check(warm_start=False, **given)["first_pass"] == words


def test_convolutions_may_be_tuned_by_two_algorithms() -> None:
    direct = matmul()
    direct.tasks.create(index=0, name="fused_conv2d_relu", weight=1)
    given = {"trials": 320, "warm_start": False}
    assert check(**given)["first_pass"] == (
        "Each of 18 tasks gets 2 trials before scheduling begins; a convolution that two algorithms can compute gets 4 with each."
    )
    assert check(**given, algorithms="direct")["first_pass"].startswith("18 tasks × 2 = 36 trials")
    matmul(options={"algorithms": "fastest"}, tasks_spare=6)
    told = "18 tasks, 6 of them by two algorithms: {} trials before scheduling begins."
    assert check(**given)["first_pass"] == told.format(12 * 2 + 6 * 8)
    assert check(**{**given, "trials": 640})["first_pass"] == told.format(12 * 4 + 6 * 8)
    few = check(**{**given, "trials": 80})["first_pass"]
    assert few == told.format(15 + 3 * 8).replace("6 of", "3 of"), "half of the budget is too little for more"
    assert check(**{**given, "trials": 30})["first_pass"] == "18 tasks × 1 = 18 trials before scheduling begins."


def test_a_warm_start_shortens_the_first_pass() -> None:
    matmul()
    assert check(trials=480)["first_pass"].endswith(" A task with a warm start needs only 1.")


def test_it_says_what_is_known_of_the_first_pass_of_a_new_network() -> None:
    unknown = "How many tasks there are isn't known yet."
    each = "Each task gets {} trials before scheduling begins"
    assert check()["first_pass"] == f"{each.format('4 or fewer')}, at most 15 % of the budget together. {unknown}"
    assert check(first_trials=8)["first_pass"] == f"{each.format(8)}. {unknown}"


def test_it_warns_of_tasks_that_the_network_does_not_have() -> None:
    matmul()
    assert "no task 18, 40" in check(tasks="1, 18, 40")["warnings"]["tasks"]


def test_it_passes_on_warnings_about_the_target(resolved: targets.TargetDict) -> None:
    resolved["warning"] = "It leaves out avx2."
    assert check()["warnings"] == {"target": "It leaves out avx2."}


def foretold(**given: Any) -> str:
    return advice.foretold({"network": "matmul", "network_options": {"n": 64}, "trials": 320, **given}, None)


@pytest.fixture
def no_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(_target: Any) -> Any:
        raise AssertionError("TVM was asked")

    monkeypatch.setattr(targets, "resolve", asked)


@pytest.mark.usefixtures("no_tvm")
def test_the_first_pass_is_foretold_without_asking_tvm() -> None:
    each = "Each task gets 4 or fewer trials before scheduling begins, at most 15 % of the budget together."
    unknown = f"{each} How many tasks there are isn't known yet."
    assert foretold() == unknown
    matmul()
    known = "18 tasks × 2 = 36 trials before scheduling begins. A task with a warm start needs only 1."
    assert foretold() == unknown, "nobody knows what this machine is"
    make_machine("here", key=identity.key())
    assert foretold() == known
    assert foretold(target=json.dumps(TARGET)) == foretold(target=TARGET) == known
    assert foretold(target="nvidia/nvidia-a100") == foretold(target="{") == unknown
    assert foretold(network_options={"n": 128}) == unknown
    assert foretold(engine="autotvm") == ""


@pytest.mark.usefixtures("no_tvm")
@pytest.mark.parametrize("wrong", [{"trials": 0}, {"network": "none"}, {"engine": "none"}, {"strategy": "luck"}])
def test_nothing_is_foretold_of_a_wrong_launch(wrong: dict[str, Any]) -> None:
    assert foretold(**wrong) == ""


def test_a_launch_needs_float16_instructions_for_float16(resolved: targets.TargetDict) -> None:
    resolved["float16"] = False
    with pytest.raises(Invalid) as refused:
        runs.launch({"network": "matmul", "network_options": {"dtype": "float16"}}, None)
    assert list(refused.value.fields) == ["network_options.dtype"]
    assert not Run.objects.exists()
    assert check(network_options={"dtype": "float32"})["fields"] == {}


def refused_precision(**given: Any) -> str:
    with pytest.raises(Invalid) as refused:
        runs.launch({"network": "mlp", "precision": "bfloat16", **given}, None)
    assert list(refused.value.fields) == ["precision"]
    assert not Run.objects.exists()
    return refused.value.fields["precision"]


def test_a_launch_needs_bfloat16_instructions_for_bfloat16(resolved: targets.TargetDict) -> None:
    resolved["needs"] = ["x86_64", "avx2", "avx512f"]
    assert "no bfloat16 instructions (avx512bf16)" in refused_precision()
    resolved["needs"] = ["riscv64", "v"]
    assert "no instructions for it on riscv64" in refused_precision()
    resolved["needs"] = []
    assert refused_precision() == "bfloat16 is for CPUs: the target is a GPU."
    assert check(precision="network")["fields"] == {}
    for needs in (["x86_64", "avx512bf16"], ["aarch64", "bf16"]):
        resolved["needs"] = needs
        assert check(precision="bfloat16")["fields"] == {}


def test_a_network_of_float16_isnt_computed_in_bfloat16(resolved: targets.TargetDict) -> None:
    resolved["needs"] = ["x86_64", "avx512bf16"]
    assert "The network itself computes in float16" in refused_precision(network_options={"dtype": "float16"})
