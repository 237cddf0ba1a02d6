"""Which runs of auto_scheduler and AutoTVM can be compiled, by which interpreter, with which records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import older_tvm
from tests.world import make_network, measured_run
from tuning.actions import compilations
from tuning.host import interpreters
from tuning.host.interpreters import Asked
from tuning.models import Compilation, Network, Run
from tuning.reads.artifacts import compile_trouble, compiler_of, record_coverage
from tuning.validation import Conflict
from tuning.work.best_records import best_records

pytestmark = pytest.mark.django_db
TVM = {"apache-tvm": "0.9.dev0"}
ELSEWHERE: dict[str, Any] = {"origin": "imported", "interpreter": "", "device": ""}


@pytest.fixture(autouse=True)
def old(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    older_tvm.name(settings, monkeypatch)


def relays() -> Network:
    options = {"batch": 1, "dtype": "float32", "source": "relay.testing"}
    return Network.objects.get_or_create(fingerprint="relay's", defaults={"name": "mlp", "options": options})[0]


def ended(**values: Any) -> Run:
    given = {"engine": "autotvm", "interpreter": "tvm0.9", "versions": TVM, "network": relays(), **values}
    run = measured_run(**given)
    run.target = values.get("target", run.target)  # Recording its tasks has changed it.
    run.save()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return run


def refused(run: Run, **options: Any) -> str:
    with pytest.raises(Conflict) as error:
        compilations.compile_run(run, options, None, enqueue=False)
    assert not Compilation.objects.exists()
    return str(error.value)


def answering(monkeypatch: pytest.MonkeyPatch, settings: Any, **versions: str) -> None:
    """Interpreters by name, with the version of their TVM."""
    settings.LEGACY_PYTHON = {name: Path("/opt") / name for name in versions}
    found = {name: Asked(msgspec.structs.replace(older_tvm.FOUND, tvm=tvm)) for name, tvm in versions.items()}
    monkeypatch.setattr(interpreters, "ask", found.__getitem__)


@pytest.mark.parametrize("engine", ["auto_scheduler", "autotvm"])
def test_a_run_is_compiled_by_the_interpreter_that_tuned_it(
    engine: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, settings, first="0.9.dev0", second="0.9.dev0")
    run = ended(engine=engine, interpreter="second")
    assert compilations.compile_run(run, {}, None, enqueue=False).status == "queued"
    compiler = compiler_of(run)
    assert compiler
    assert compiler.python == Path("/opt/second")


def test_a_run_that_others_tuned_is_compiled_by_an_interpreter_of_its_version(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, settings, a="0.16.dev0", b="0.9.dev0")
    for versions, python in ((TVM, "b"), ({}, "a")):
        compiler = compiler_of(ended(versions=versions, **ELSEWHERE))
        assert compiler
        assert compiler.python == Path("/opt") / python


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"interpreter": "gone"}, "needs the interpreter 'gone', which TUNEBOARD_LEGACY_PYTHON doesn't name"),
        (
            {"versions": {"apache-tvm": "0.8.0"}},
            "made by TVM 0.8.0, but the interpreter tvm0.9 has TVM 0.9.dev0, which may read them differently",
        ),
        ({"versions": {"apache-tvm": "0.8.0"}, **ELSEWHERE}, "made by TVM 0.8.0, but the interpreter tvm0.9 has"),
        ({"target": {"kind": "cuda"}, "device": "cuda:0"}, "TVM 0.9.dev0 can't use cuda on this machine: RuntimeError"),
        ({"synthetic": True}, "synthetic"),
    ],
)
def test_what_is_missing_is_named(values: dict[str, Any], said: str) -> None:
    assert said in refused(ended(**values))


def test_a_remote_devices_target_need_not_be_this_machines() -> None:
    assert compile_trouble(ended(target={"kind": "cuda"}, device="rpc:lab/gpu")) is None


def test_without_an_interpreter_it_says_what_to_set(settings: Any) -> None:
    settings.LEGACY_PYTHON = {}
    assert "name an interpreter that has one in TUNEBOARD_LEGACY_PYTHON" in refused(ended(**ELSEWHERE))


def test_an_interpreter_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "ask", lambda _name: Asked(error="/opt/tvm0.9 hangs before its first step."))
    assert refused(ended()) == "/opt/tvm0.9 hangs before its first step."


def test_an_interpreter_without_the_engine_is_refused(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    older_tvm.name(settings, monkeypatch, engines={"auto_scheduler": None, "autotvm": "ImportError: no autotvm"})
    assert refused(ended()) == "TVM 0.9.dev0 has no AutoTVM: ImportError: no autotvm."


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ({"kind": "named"}, "Its network isn't known here, only its tasks."),
        ({"kind": "irmodule"}, "AutoTVM tunes networks in Relay: this one is a Relax module. Upload it as ONNX."),
        ({"kind": "onnx"}, "TVM 0.9.dev0 can't read ONNX files: ModuleNotFoundError: onnx."),
        (
            {"kind": "builtin", "project": None},
            "Its network net is defined by Tuneboard: older TVMs build those of tvm.relay.testing, and ONNX files.",
        ),
    ],
)
def test_networks_that_the_interpreter_cannot_build_are_refused(
    network: dict[str, Any], said: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    older_tvm.name(settings, monkeypatch, onnx="ModuleNotFoundError: onnx")
    assert said in refused(ended(network=make_network(**network), **ELSEWHERE))


def test_while_an_interpreter_is_being_asked_the_page_knows_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "look", lambda _name: Asked())
    run = ended(versions={"apache-tvm": "0.8.0"})
    assert compile_trouble(run, wait=False) is None
    assert compile_trouble(run)


def test_the_best_of_all_runs_is_that_of_the_compiling_tvm() -> None:
    run = ended(device="a")
    other = ended(device="b", latencies=[(0, 5e-4), (1, 4e-3)])
    ended(device="c", latencies=[(0, 1e-5)], versions={"apache-tvm": "0.8.0"})
    found, estimate = best_records(run, "library", "0.9.dev0")
    assert [(one.run, one.latency_s) for one in found] == [(other.pk, 5e-4), (run.pk, 3e-3)]
    assert estimate == pytest.approx(5e-4 * 1 + 3e-3 * 2)
    assert compile_trouble(run, "library") is None
    Run.objects.update(versions={"apache-tvm": "0.8.0"})
    assert "No run has a valid record" in refused(ended(device="d", latencies=[(0, None)]), source="library")


def test_a_record_of_one_of_a_layers_templates_is_enough(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    older_tvm.name(settings, monkeypatch)
    run = ended(latencies=[(0, 1e-3), (1, None)])
    run.tasks.filter(index=0).update(name="dense_nopack.x86")
    run.tasks.filter(index=1).update(name="conv2d_nchw.x86")
    assert [one["index"] for one in record_coverage(run, "run")["untuned"]] == [1]
    run.tasks.filter(index=1).update(name="dense_pack.x86")
    found = record_coverage(run, "run")
    assert (found["untuned"], found["trouble"]) == ([], None)


def test_the_fastest_template_of_a_layer_counts() -> None:
    run = ended(latencies=[(0, 1e-3), (1, 3e-3)])
    for index, (template, weight) in enumerate([("dense_nopack.x86", 0), ("dense_pack.x86", 4)]):
        run.tasks.filter(index=index).update(name=template, weight=weight, args=[{"shape": [1, 784]}])
    found, estimate = best_records(run, "run")
    assert len(found) == 2, "TVM itself chooses"
    assert estimate == pytest.approx(4 * 1e-3)
    run.tasks.filter(index=0).update(args=[{"shape": [1, 128]}])
    assert best_records(run, "run")[1] == pytest.approx(4 * 3e-3)
    run.tasks.update(weight=None)
    assert best_records(run, "run")[1] is None
