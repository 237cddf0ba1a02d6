"""Launches of auto_scheduler and AutoTVM: what is stored, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests import older_tvm
from tuning.actions import advice, runs
from tuning.host import interpreters
from tuning.host.interpreters import Asked
from tuning.models import Run
from tuning.validation import Invalid

pytestmark = pytest.mark.django_db
AUTOTVM = {"engine": "autotvm", "network": "mobilenet", "target": "llvm -mcpu=core-avx2"}


@pytest.fixture(autouse=True)
def old(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    older_tvm.name(settings, monkeypatch)


def launch(**changes: Any) -> Run:
    return runs.launch({**AUTOTVM, **changes}, None, enqueue=False)


def refused(**changes: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as error:
        launch(**changes)
    assert not Run.objects.exists()
    return error.value.fields


def test_it_stores_engine_interpreter_and_the_options_of_the_engine() -> None:
    run = launch(tuner="ga", ops="conv2d, dense", ga_population="20")
    assert (run.engine, run.interpreter, run.device) == ("autotvm", "tvm0.9", "cpu")
    assert run.target == {"kind": "llvm", "mcpu": "core-avx2"}
    assert (run.options["tuner"], run.options["ops"], run.options["ga_population"]) == ("ga", ["conv2d", "dense"], 20)
    assert run.options["seed"] is not None
    assert run.network_options == {"batch": 1, "layout": "NCHW", "dtype": "float32", "source": "relay.testing"}
    assert run.name == "mobilenet"


def test_networks_of_relay_are_other_networks() -> None:
    """They have the same names, but other layers."""
    ours = runs.launch({"network": "mlp", "target": {"kind": "llvm", "num-cores": 1}}, None, enqueue=False)
    assert launch(network="mlp").network != ours.network


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"engine": "tvm"}, "engine", "There is no engine 'tvm'. Known: meta_schedule, auto_scheduler, autotvm."),
        ({"engine": ["autotvm"]}, "engine", "There is no engine"),
        ({"interpreter": "tvm0.8"}, "interpreter", "There is no interpreter 'tvm0.8'. Choose one of tvm0.9."),
        ({"engine": "meta_schedule", "interpreter": "tvm0.9"}, "interpreter", "leave it out"),
        ({"network": "matmul"}, "network", "There is no network 'matmul'"),
        ({"network": "inception_v3", "network_options": {"layout": "NHWC"}}, "network_options.layout", "one of NCHW"),
        ({"ops": "conv2d, conv9d"}, "ops", "Must be one or more of batch_matmul, conv2d"),
        ({"trials_per_batch": 4}, "trials_per_batch", "There is no such option"),
        ({"tuner": "droplet"}, "tuner", "Must be one of xgb"),
        ({"transfer": True}, "transfer", "choose knob or curve"),
        ({"target": "cuda"}, "target", "TVM 0.9.dev0 can't use cuda on this machine"),
    ],
)
def test_it_names_the_field_at_fault(given: dict[str, Any], field: str, said: str) -> None:
    assert said in refused(**given)[field]


def test_one_of_several_interpreters_has_to_be_named(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    older_tvm.name(settings, monkeypatch, "tvm0.8", "tvm0.9")
    assert refused() == {"interpreter": "Choose one of tvm0.8, tvm0.9."}
    assert launch(interpreter="tvm0.8").interpreter == "tvm0.8"


def test_without_any_it_says_what_to_set(settings: Any) -> None:
    settings.LEGACY_PYTHON = {}
    assert refused() == {"engine": "AutoTVM needs an interpreter with an older TVM: set TUNEBOARD_LEGACY_PYTHON."}


def test_an_interpreter_that_gives_no_answer_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "ask", lambda _name: Asked(error="/opt/x crashed."))
    assert refused() == {"interpreter": "/opt/x crashed."}


def test_it_warns_of_a_layout_without_templates() -> None:
    checked = advice.check({**AUTOTVM, "network_options": {"layout": "NHWC"}}, None)
    assert checked["fields"] == {}
    assert "choose a channels-first one" in checked["warnings"]["network_options.layout"]
    assert advice.check(AUTOTVM, None)["warnings"] == {}
