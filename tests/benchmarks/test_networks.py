"""The tables of bench_networks from made-up figures, its plan, its models, and one real tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from django.core.management import CommandError, call_command

from tests.benchmarks.management.commands import bench_networks
from tests.benchmarks.networks import plan, report
from tests.benchmarks.networks.alone import Side
from tests.benchmarks.networks.busy import SIDES, Busy
from tests.benchmarks.networks.models import MODELS, unet
from tests.benchmarks.networks.plan import Tuning
from tests.benchmarks.networks.shipping import Shipped, launch_of, upload
from tests.benchmarks.networks.stock import Stock
from tests.benchmarks.networks.stock_library import InTurnWithStock
from tests.benchmarks.networks.together import ROUNDS, Together
from tuning.engines.wire.catalog import BUILTIN
from tuning.models import Network


def outcome(network: str = "bert", **values: Any) -> Shipped:
    given: dict[str, Any] = {
        "network": network,
        "share": 1.0,
        "seed": 1,
        "cpu": "znver5",
        "cores": 2,
        "run": 7,
        "trials": 1000,
        "tuned_for_s": 600.0,
        "estimate_s": 4e-3,
        "noise": 0.02,
        "verified": True,
        "max_rel_error": 1.2e-6,
        "functions": 20,
        "untuned_functions": [],
        "rounds": {"tuned": [5e-3, 6e-3, 4e-3], "untuned": [0.5], "onnxruntime": [10e-3]},
        "onnxruntime": "1.23.2",
    }
    return Shipped(**(given | values))


def test_a_library_is_compared_with_onnx_runtime_and_with_what_was_promised() -> None:
    assert report.ratio(outcome(), "onnxruntime") == 0.5
    assert report.over_estimate(outcome()) == 1.25
    then = Together([4e-3, 8e-3, 2e-3], [5e-3, 9e-3, 2.2e-3])
    assert report.over_records(outcome(together=then)) == 1.125, "both were slow in the second round"
    without = outcome(rounds={"tuned": [5e-3]}, estimate_s=None)
    assert (report.ratio(without, "onnxruntime"), report.over_estimate(without)) == (None, None)
    assert report.over_records(without) is None


def test_each_budget_has_a_table_and_a_geometric_mean() -> None:
    slower = outcome("vit", rounds={"tuned": [20e-3], "onnxruntime": [10e-3]}, functions=3, untuned_functions=["add"])
    whole, tenth = report.markdown([outcome(), slower, outcome(share=0.1, trials=100)]).split("\n\n10%")
    assert whole.startswith("100% of the budget; geometric mean of tuned ÷ ONNX Runtime: 1.000 over 2 tunings.")
    assert (
        "| bert | znver5, 2 cores | 1000 | 10.0 | 4 | 5 (4 to 6) | 1.25 | not measured | 10 (10 to 10) | 0.50 | not measured |"
        in whole
    )
    assert "yes (1e-06), 2 of 3 functions scheduled" in whole
    assert "0.500 over 1 tunings" in tenth


def test_what_was_not_measured_has_no_figure() -> None:
    told = report.markdown([outcome(rounds={"tuned": [5e-3]}, estimate_s=None, verified=False)])
    assert told.count("not measured") == 6
    assert told.count("not recorded") == 2
    assert "| no (1e-06) |" in told


def test_stock_tvm_has_the_same_budget_and_may_leave_functions_unscheduled() -> None:
    stock = Stock(960, 1800.0, InTurnWithStock([5e-3, 6e-3, 5e-3], [20e-3, 21e-3, 20e-3], 20, 12))
    told = report.markdown([outcome(stock=stock)])
    assert "| 0.25 (960 trials in time, last report after 30.0 min, 12 of 20 functions scheduled) |" in told
    assert "| nothing scheduled: 0 trials in time |" in report.markdown([outcome(stock=Stock(0, 280.0, None))])


def test_beside_a_busy_core_some_end_late_or_never() -> None:
    quiet: dict[Side, list[float]] = {"bound": [5e-3, 6e-3, 5e-3], "unbound": [5e-3], "onnxruntime": [7e-3]}
    told = report.markdown(
        [outcome(busy=Busy(quiet, quiet | {"bound": [], "unbound": [10e-3, 9e-3, 140e-3]})), outcome("vit")]
    )
    assert "| bert | quiet | 5 (5 to 6) | 5 (5 to 5) | 7 (7 to 7) |" in told
    assert told.endswith("| bert | a core busy | above 60 s | 10 (9 to 140) | 7 (7 to 7) |")


def test_it_says_where_the_time_goes() -> None:
    functions = [
        {"function": "dense", "calls": 4, "inside_s": 1e-3},
        {"function": "conv", "calls": 1, "inside_s": 1e-3},
    ]
    profile = {"functions": functions, "machine_s": 26e-6, "machine_calls": 31}
    told = report.markdown([outcome(profile=profile), outcome("vit")])
    assert told.endswith("| bert | 4 | 5 | 0.026 | 31 | dense 80%, conv 20% |")


def test_a_gpus_networks_have_no_cores_and_no_onnx_runtime() -> None:
    on_gpu = outcome(
        cpu="nvidia/nvidia-h100", cores=None, rounds={"tuned": [5e-3], "untuned": [6e-3]}, onnxruntime=None
    )
    assert "| bert | nvidia/nvidia-h100 | 1000 |" in report.markdown([on_gpu])


def test_smaller_budgets_come_first_and_have_less_time() -> None:
    planned = list(plan.tunings(["mlp", "bert"], [1.0, 0.1], [1], 30.0, options={}))
    assert [(one.workload.name, one.trials, one.minutes) for one in planned] == [
        ("mlp", 26, 3.0),
        ("bert", 100, 3.0),
        ("mlp", 256, 30.0),
        ("bert", 1000, 30.0),
    ]


def test_every_network_is_built_in_or_has_a_file() -> None:
    assert {name for name, one in plan.WORKLOADS.items() if not one.is_uploaded} <= BUILTIN.keys()
    assert {name for name, one in plan.WORKLOADS.items() if one.is_uploaded} == MODELS.keys()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_models_run_and_are_the_same_each_time(name: str) -> None:
    numpy, runtime = pytest.importorskip("numpy"), pytest.importorskip("onnxruntime")
    model = MODELS[name]()
    assert model == MODELS[name]()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,), random = session.get_inputs(), numpy.random.default_rng(0)
    for found in session.run(None, {given.name: random.standard_normal(given.shape, dtype="float32")}):
        assert 0.1 < numpy.abs(found).max() < 100


@pytest.mark.django_db
def test_a_results_file_is_continued_for_each_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list[Tuning]()

    def shipping(tuning: Tuning, **_: bool) -> Shipped:
        asked.append(tuning)
        is_here = tuning.target == plan.THIS
        return outcome(tuning.workload.name, **{} if is_here else {"cpu": tuning.target, "cores": None})

    monkeypatch.setattr(bench_networks, "shipped", shipping)
    for target in ([], [], ["--target", "nvidia/nvidia-h100"], ["--target", "nvidia/nvidia-h100"]):
        call_command(
            "bench_networks", "--networks", "mlp", "--shares", "1", "--into", str(tmp_path / "all.json"), *target
        )
    capsys.readouterr()
    assert [tuning.target for tuning in asked] == ["this", "nvidia/nvidia-h100"]


def test_options_of_the_network_are_told_from_those_of_the_run() -> None:
    (tuning,) = plan.tunings(["mlp"], [1.0], [1], 30.0, options={"network_options.batch": "8", "algorithms": "direct"})
    launched = launch_of(tuning)
    assert (launched["network_options"], launched["algorithms"]) == ({"batch": "8"}, "direct")
    assert "network_options.batch" not in launched


@pytest.mark.tvm
@pytest.mark.django_db
def test_a_model_is_uploaded_for_the_first_of_its_tunings() -> None:
    for _ in range(2):
        upload(plan.WORKLOADS["unet"])
    assert [network.name for network in Network.objects.all()] == ["unet"]


@pytest.mark.django_db
def test_it_refuses_options_that_make_no_sense(tmp_path: Path) -> None:
    for_another = ["--target", "nvidia/nvidia-h100", "--stock"]
    for wrong in (["--shares", "0"], ["--shares", "1.5"], ["--minutes", "0"], ["--set", "algorithms"], for_another):
        with pytest.raises(CommandError) as refused:
            call_command("bench_networks", *wrong, "--into", str(tmp_path / "new.json"))
        assert refused.value.returncode == 2
    (tmp_path / "other.json").write_text('[{"network": "bert"}]')
    with pytest.raises(CommandError, match=r"other\.json isn't a results file"):
        call_command("bench_networks", "--into", str(tmp_path / "other.json"))


@pytest.mark.tvm
def test_reading_a_network_is_measured_with_tvm_alone_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.benchmarks.networks.constants import measured, with_batch_norms
    from tuning.engines.networks.uploaded import constants

    by_numpy: list[str] = []
    computed = constants.computed

    def spied(call: Any, builder: Any) -> Any:
        by_numpy.append(str(call.op))
        return computed(call, builder)

    monkeypatch.setattr(constants, "computed", spied)
    data = with_batch_norms(unet(channels=8, image=8))
    kinds = [node.op_type for node in onnx.load_from_string(data).graph.node]
    assert kinds.count("BatchNormalization") == kinds.count("Conv") > 0
    ((alone, ours),) = measured(data, 1)
    assert min(alone, ours) > 0
    assert by_numpy, "one of them is with NumPy"


def test_the_row_of_a_network_that_is_read() -> None:
    from tests.benchmarks.networks.constants import row as row_of

    row = row_of("unet", [(2.0, 1.0), (4.0, 1.0), (3.0, 1.2)])
    assert row == "| unet | 3.00 | 1.00 | 0.40 (0.25 to 0.50) |"


@pytest.mark.tvm
@pytest.mark.rare
@pytest.mark.django_db(transaction=True)
def test_a_network_is_tuned_compiled_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: Any
) -> None:
    settings.BENCHMARK_S = 1.0
    small = [
        "--networks",
        "mlp",
        "--shares",
        "0.05",
        "--minutes",
        "200",  # On a busy machine, stock TVM takes minutes for its first batch.
        "--stock",
        "--busy-core",
        "--into",
        str(tmp_path / "results.json"),
        "--json",
    ]
    call_command("bench_networks", *small)
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["network"], shown["trials"], shown["verified"]) == ("mlp", 13, True)
    assert shown["estimate_s"] > 0
    assert set(shown["rounds"]) >= {"tuned", "untuned"}
    assert len(shown["together"]["alone"]) == len(shown["together"]["library"]) == ROUNDS
    assert shown["stock"]["trials"] == 13
    assert len(shown["stock"]["measured"]["ours"]) == len(shown["stock"]["measured"]["stock"]) > 0
    assert all(shown["busy"]["quiet"][side] for side in SIDES)
    assert shown["busy"]["busy"]["unbound"]
    call_command("bench_networks", *small)
    assert json.loads(capsys.readouterr().out) == [shown], "it was tuned only once"
