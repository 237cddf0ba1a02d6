"""Whether a network got slower, judged by the benchmarks of its libraries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.world import make_compilation, make_machine, measured_run
from tuning.management.commands import check_regression
from tuning.models import Benchmark, Compilation, Run
from tuning.queue import jobs
from tuning.reads.comparing.regressions import Verdict, earlier, judged
from tuning.reads.library import tvm

pytestmark = pytest.mark.django_db
ROUNDS = (0.98, 0.99, 1.0, 1.0, 1.0, 1.01, 1.02)


@pytest.fixture
def run() -> Run:
    made = measured_run(versions={"apache-tvm": tvm()})
    made.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    return made


def benchmark(run: Run, latency_s: float, spread: Sequence[float] = ROUNDS, **values: Any) -> Benchmark:
    """A later benchmark than all before, of a library of its own."""
    compilation = make_compilation(run, **({"source": "library"} | values))
    compilation.benchmarks.all().delete()
    at = timezone.now() + timedelta(hours=Benchmark.objects.count())
    rounds = {"tuned": [latency_s * each for each in spread]}
    return Benchmark.objects.create(compilation=compilation, rounds=rounds, at=at)


def verdict(latest: Benchmark) -> Verdict:
    return judged(latest, earlier(latest))


def test_a_change_is_told_if_noise_does_not_explain_it(run: Run) -> None:
    first = benchmark(run, 10e-3)
    assert (verdict(first)["verdict"], verdict(first)["base_s"]) == ("unknown", None)
    for latency_s, expected in ((10.1e-3, "within noise"), (11e-3, "regression"), (9e-3, "improvement")):
        found = verdict(benchmark(run, latency_s))
        assert found["verdict"] == expected
        assert 0.02 < (found["noise"] or 0) < 0.1


def test_a_regression_stays_one_until_it_is_gone(run: Run) -> None:
    good = [benchmark(run, 10e-3) for _ in range(2)]
    found = [verdict(benchmark(run, 12e-3)) for _ in range(7)]
    assert {one["verdict"] for one in found} == {"regression"}
    assert found[-1]["base"] == [one.pk for one in good]
    assert found[-1]["change"] == pytest.approx(0.2)
    assert verdict(benchmark(run, 10e-3))["verdict"] == "within noise"


def test_what_varies_from_one_benchmark_to_the_next_is_noise(run: Run) -> None:
    for latency_s in (9e-3, 11e-3, 10e-3, 9.2e-3, 10.8e-3):
        benchmark(run, latency_s, spread=[0.8, 0.9, 1.0, 1.1, 1.2])
    assert verdict(benchmark(run, 11e-3))["verdict"] == "within noise"


def test_few_rounds_tell_nothing(run: Run) -> None:
    benchmark(run, 10e-3)
    found = verdict(benchmark(run, 20e-3, spread=(0.99, 1.0, 1.01)))
    assert (found["verdict"], found["noise"]) == ("unknown", None)
    assert found["change"] == pytest.approx(1.0)


def test_earlier_ones_with_few_rounds_are_no_base_beside_others(run: Run) -> None:
    for _ in range(2):
        benchmark(run, 20e-3, spread=(0.99, 1.0, 1.01))
    first = benchmark(run, 10e-3)
    assert verdict(first)["verdict"] == "unknown"
    assert verdict(first)["change"] == pytest.approx(-0.5)
    found = verdict(benchmark(run, 10.05e-3))
    assert (found["verdict"], found["base"]) == ("within noise", [first.pk])


def test_only_what_is_alike_is_compared(run: Run) -> None:
    benchmark(run, 10e-3, source="run")
    benchmark(run, 10e-3, verified=False)
    benchmark(run, 10e-3, machine=make_machine("lab-2"))
    elsewhere = measured_run()
    elsewhere.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    benchmark(elsewhere, 10e-3)
    Run.objects.filter(pk=elsewhere.pk).update(target_fingerprint="other")
    assert verdict(benchmark(run, 20e-3))["verdict"] == "unknown"


def checked(run: Run, *args: str, capsys: Any) -> tuple[int, str]:
    """The command's exit status and output."""
    try:
        call_command("check_regression", str(run.pk), *args)
    except SystemExit as ended:
        return int(ended.code or 0), str(capsys.readouterr().out)
    return 0, str(capsys.readouterr().out)


def test_the_command_judges_what_is_recorded(run: Run, capsys: Any) -> None:
    first = benchmark(run, 10e-3)
    status, said = checked(run, "--recorded", capsys=capsys)
    assert (status, said.split(":")[0]) == (2, "unknown")
    slow = benchmark(run, 15e-3)
    Compilation.objects.filter(pk=first.compilation_id).update(created_at=timezone.now() - timedelta(days=1))
    status, said = checked(run, "--recorded", "--json", capsys=capsys)
    told = json.loads(said)
    assert (status, told["verdict"], told["benchmark"], told["base"]) == (1, "regression", slow.pk, [first.pk])
    assert checked(run, "--recorded", "--base", str(first.pk), capsys=capsys)[0] == 1
    with pytest.raises(CommandError, match="--base: There is no earlier benchmark"):
        checked(run, "--recorded", "--base", str(slow.pk), capsys=capsys)


def test_the_command_has_the_library_measured(run: Run, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark(run, 10e-3)

    def worked(queued: Compilation) -> None:
        Benchmark.objects.create(compilation=queued, rounds={"tuned": [10.05e-3 * each for each in ROUNDS]})
        Compilation.objects.filter(pk=queued.pk).update(status="finished", verified=True, sha256="ab")

    monkeypatch.setattr(check_regression, "POLL_S", 0.0)
    monkeypatch.setattr(jobs, "enqueue", worked)
    Benchmark.objects.update(at=timezone.now() - timedelta(days=1))
    for how in ((), ("--no-compile",)):
        status, said = checked(run, "--best-of", "library", *how, capsys=capsys)
        assert (status, said.split(":")[0]) == (0, "within noise"), said


def test_what_failed_is_never_ok(run: Run, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark(run, 10e-3)

    def failed(queued: Compilation) -> None:
        Compilation.objects.filter(pk=queued.pk).update(status="failed", error="It can't be built.")

    monkeypatch.setattr(check_regression, "POLL_S", 0.0)
    monkeypatch.setattr(jobs, "enqueue", failed)
    for args, why in (((), "can't be built"), (("--no-compile",), "can't be built")):
        with pytest.raises(CommandError, match=why) as refused:
            checked(run, *args, capsys=capsys)
        assert refused.value.returncode == 2
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)
    with pytest.raises(CommandError, match="Is the site running"):
        checked(run, "--wait-s", "0", capsys=capsys)
    with pytest.raises(CommandError, match="There is no run 999"):
        call_command("check_regression", "999")
