"""Runs that continue another one with other options."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import TARGET, make_run, measured_run
from tuning.actions import curation, projects, runs
from tuning.host import targets
from tuning.models import AuditEntry, Run
from tuning.validation import Invalid

pytestmark = pytest.mark.django_db
SMALL = {"network": "matmul", "network_options": {"n": 64}, "target": "this", "trials": 8, "strategy": "evolutionary"}


@pytest.fixture(autouse=True)
def without_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(target: Any) -> targets.TargetDict:
        found = TARGET if target == "this" else {"kind": "llvm", "mcpu": "skylake"}
        return {"target": found, "device": "cpu", "label": str(found["mcpu"])}

    monkeypatch.setattr(targets, "resolve", resolve)


@pytest.fixture
def earlier() -> Run:
    """A run of `SMALL` that has ended, with valid trials."""
    launched = runs.launch(SMALL, None, enqueue=False)
    kept = {name: getattr(launched, name) for name in ("network", "options", "target")}
    Run.objects.all().delete()
    run = measured_run(**kept)
    run.move("running", to="finished")
    return run


def launch(run: Run, **changes: Any) -> Run:
    return runs.launch({**SMALL, "continues": run.pk, **changes}, None, enqueue=False)


def wrong_with(run: Any, **changes: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        runs.launch({**SMALL, "continues": getattr(run, "pk", run), **changes}, None, enqueue=False)
    return refused.value.fields


def test_it_is_stored_with_what_is_different(earlier: Run) -> None:
    run = launch(earlier, strategy="replay-trace", trials=99, tasks="0")
    assert run.continues == earlier
    assert run.changed_options() == {"tasks": [None, [0]], "strategy": ["evolutionary", "replay-trace"]}
    shown = run.to_full_dict()
    assert (shown["continues"], shown["continued_by"]) == (earlier.pk, [])
    assert shown["changed_options"] == run.changed_options()
    assert earlier.to_full_dict()["continued_by"] == [run.pk]
    entry = AuditEntry.objects.get(action="run.launch", object_id=run.pk)
    assert entry.details["continues"] == earlier.pk


def test_a_form_sends_its_number_as_text(earlier: Run) -> None:
    assert launch(earlier, continues=str(earlier.pk)).continues == earlier
    assert launch(earlier, continues="").continues is None


def test_variants_continue_the_same_run(earlier: Run) -> None:
    data = {**SMALL, "continues": earlier.pk}
    launched, _tag = runs.launch_variants(data, {"strategy": ["replay-trace", "replay-func"]}, None)
    assert [run.continues for run in launched] == [earlier, earlier]


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"network": "mlp", "network_options": {}}, "network", "tuned matmul with"),
        ({"network_options": {"n": 128}}, "network", "n=64"),
        ({"target": "other"}, "target", "was tuned for llvm · znver4 · 2 cores, not for skylake"),
    ],
)
def test_it_must_be_the_same_network_and_target(earlier: Run, changes: Any, field: str, said: str) -> None:
    wrong = wrong_with(earlier, **changes)
    assert wrong.keys() == {field}
    assert wrong[field].startswith(f"Run {earlier.pk}, which this one continues, ")
    assert said in wrong[field]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"status": "running"}, "it is running, and can be once it has ended"),
        ({"synthetic": True}, "it wasn't tuned here"),
        ({"origin": "imported"}, "it wasn't tuned here"),
        ({"engine": "autotvm"}, "it was tuned by autotvm, and only MetaSchedule's runs can be"),
        ({"tasks_measured": 0}, "it has no valid trial"),
    ],
)
def test_a_run_that_cannot_be_continued_is_refused_with_the_reason(earlier: Run, values: Any, why: str) -> None:
    Run.objects.filter(pk=earlier.pk).update(**values)
    assert wrong_with(earlier) == {"continues": f"Run {earlier.pk} can't be continued: {why}."}


def test_only_runs_of_the_project_can_be_continued(earlier: Run) -> None:
    elsewhere = make_run(project=projects.create("vision"), status="finished", tasks_measured=1)
    for unknown in (elsewhere.pk, 999_999):
        assert wrong_with(unknown) == {"continues": f"There is no run {unknown} in the project default."}
    for strange in ("mine", True, [1], 1.5):
        assert wrong_with(strange).keys() == {"continues"}
    curation.delete(earlier)
    assert wrong_with(earlier).keys() == {"continues"}
