"""`manage.py compile`: output and exit status."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.compile_fixtures import Compiler
from tests.threads import when
from tests.world import make_run, measured_run, tuned_for_cuda
from tuning.actions.networks.chosen import stored
from tuning.models import Compilation, Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Restores this process's signal handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def run() -> Run:
    run = measured_run()
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return run


def test_it_prints_coverage_verdict_and_figures(
    run: Run, compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("compile", str(run.pk))
    said = capsys.readouterr().out
    assert "2 of 3 functions use a tuned record; untuned: slow." in said
    assert "Verified: outputs match the untuned library's. They differ by at most 1e-06" in said
    assert "Untuned" in said
    assert "2.000\u00a0ms: 10.0× as fast as the untuned library" in said
    assert "Estimate 7.000\u00a0ms: measured is 0.29× the estimate." in said


def test_it_prints_json_and_nothing_else(run: Run, compiler: Compiler, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("compile", str(run.pk), "--json")
    shown = json.loads(capsys.readouterr().out)
    assert (shown["status"], shown["verified"], shown["source"]) == ("finished", True, "run")


def test_it_launches_kernels_together_or_one_by_one(compiler: Compiler, capsys: pytest.CaptureFixture[str]) -> None:
    run = tuned_for_cuda()
    call_command("compile", str(run.pk))
    assert "The first inference captures 4 CUDA graphs, and all others launch" in capsys.readouterr().out
    call_command("compile", str(run.pk), "--cuda-graphs", "off")
    assert "CUDA graph" not in capsys.readouterr().out


def test_it_compiles_for_any_batch(run: Run, compiler: Compiler, capsys: pytest.CaptureFixture[str]) -> None:
    eight = stored("mlp", {"batch": 8}, None)
    measured_run(name="eight", network=eight).move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    call_command("compile", str(run.pk), "--batches", "all")
    said = capsys.readouterr().out
    assert "Milliseconds per inference by batch" in said
    assert re.search(r"8 +7\.000 +16\.00 +2\.000 +– +160\.0", said)


def test_a_batch_that_nobody_tuned_is_named(run: Run) -> None:
    with pytest.raises(CommandError, match="--batches: No run of the project has tuned other batches"):
        call_command("compile", str(run.pk), "--batches", "all")


def test_it_chooses_inside_the_network(run: Run, compiler: Compiler, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("compile", str(run.pk), "--choose", "inside")
    assert "Inside the network, none of the other records is clearly faster" in capsys.readouterr().out


def test_it_copies_the_published_files(run: Run, compiler: Compiler, tmp_path: Path) -> None:
    call_command("compile", str(run.pk), "--out", str(tmp_path / "new"))
    stem = f"mlp_znver4_run-{run.pk}_compilation-{Compilation.objects.get().pk}"
    assert {path.name for path in (tmp_path / "new").iterdir()} >= {f"{stem}.so", f"{stem}.json", f"{stem}.py"}
    assert (tmp_path / "new" / f"{stem}.so").read_bytes() == b"whole"


def test_it_fails_when_there_is_no_library(run: Run, compiler: Compiler) -> None:
    compiler("kill")
    with pytest.raises(CommandError, match=r"failed: .*SIGSEGV") as raised:
        call_command("compile", str(run.pk))
    assert raised.value.returncode == 1


def test_it_fails_when_the_library_is_wrong(run: Run, compiler: Compiler) -> None:
    compiler("wrong")
    with pytest.raises(CommandError, match="is not verified: do not use it"):
        call_command("compile", str(run.pk))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["99"], "There is no run 99"),
        (["{run}", "--best-of", "all"], "--best-of: Must be one of run, library"),
        (["{run}", "--choose", "outside"], "--choose: Must be one of alone, inside"),
        (["{empty}"], "no valid record yet"),
    ],
)
def test_it_refuses_bad_arguments(run: Run, arguments: list[str], message: str) -> None:
    empty = make_run(device="b")
    with pytest.raises(CommandError, match=message) as raised:
        call_command("compile", *(text.format(run=run.pk, empty=empty.pk) for text in arguments))
    assert raised.value.returncode == 2
    assert not Compilation.objects.exists()


def test_ctrl_c_cancels(run: Run, compiler: Compiler) -> None:
    compiler("hang")
    sender = when(
        lambda: Compilation.objects.filter(phase="building").exists(), lambda: os.kill(os.getpid(), signal.SIGINT)
    )
    with pytest.raises(CommandError, match="cancelled"):
        call_command("compile", str(run.pk))
    sender.join()
    assert Compilation.objects.get().status == "cancelled"
