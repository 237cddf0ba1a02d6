"""`manage.py check_regression NAME`: what a stored check has found. By a run's number: tests/tuning/reads/test_regressions.py."""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.world import make_check, make_result, measured_run
from tuning.actions.checking import checks
from tuning.management.commands import check_regression
from tuning.models import CheckResult, Project, RegressionCheck
from tuning.queue import jobs

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture(autouse=True)
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)
    monkeypatch.setattr(check_regression, "POLL_S", 0.0)


def checked(*args: str, capsys: Any) -> tuple[int, str]:
    """The exit status and the output."""
    try:
        call_command("check_regression", *args)
    except SystemExit as ended:
        return int(ended.code or 0), str(capsys.readouterr().out)
    return 0, str(capsys.readouterr().out)


def refused(*args: str) -> tuple[int, str]:
    with pytest.raises(CommandError) as raised:
        call_command("check_regression", *args)
    return raised.value.returncode, str(raised.value)


@pytest.mark.parametrize(
    ("values", "status", "said"),
    [
        ({"verdict": "first"}, 0, "first: 10 ms. There is nothing to compare it with yet."),
        (
            {"verdict": "within noise", "base_s": 10e-3, "change": 0.001, "noise": 0.02},
            0,
            "within noise: 10 ms, +0.1% against the base of 10 ms, noise is ±2.0%.",
        ),
        (
            {"verdict": "regression", "base_s": 9e-3, "change": 0.111, "noise": 0.02},
            1,
            "regression: 10 ms, +11.1% against the base of 9 ms, noise is ±2.0%.",
        ),
        ({"verdict": "failed", "error": "Its run was deleted.", "latency_s": None}, 2, "failed: Its run was deleted."),
    ],
    ids=("first", "noise", "regression", "failed"),
)
def test_the_latest_result_decides(values: dict[str, Any], status: int, said: str, capsys: Any) -> None:
    check = make_check()
    result = make_result(check, **values)
    make_result(check, None, verdict="skipped", error="Result 1 still went on.")
    assert checked(check.name, capsys=capsys) == (status, f"{said}\n")
    found, text = checked(check.name, "--json", capsys=capsys)
    assert (found, json.loads(text)["id"]) == (status, result.pk)


def test_without_a_result_nothing_can_be_told() -> None:
    assert refused(make_check().name) == (2, "mlp nightly has no result yet.")


def test_a_result_that_is_old_passes_nothing() -> None:
    check = make_check()
    make_result(check, ended_at=timezone.now() - timedelta(hours=48))
    call_command("check_regression", check.name)
    make_result(check, ended_at=timezone.now() - timedelta(hours=50))
    status, said = refused(check.name)
    assert status == 2
    assert re.fullmatch(
        r"mlp nightly has had no result since [-\d]+ [:\d]+ UTC, although .* day\. Is the site running\?", said
    )


def test_one_that_is_paused_passes_only_by_a_new_result(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check = make_check(next_at=None)
    make_result(check)
    status, said = refused(check.name)
    assert (status, said.partition(",")[0]) == (2, "mlp nightly is paused")

    def measured(_: float) -> None:
        CheckResult.objects.going().update(verdict="within noise", latency_s=1.0, base_s=1.0, change=0.0, noise=0.1)

    monkeypatch.setattr(time, "sleep", measured)
    assert checked(check.name, "--run-now", "--wait", capsys=capsys)[0] == 0


def test_it_is_done_now_and_waited_for(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check = make_check()
    status, said = checked(check.name, "--run-now", capsys=capsys)
    assert (status, said) == (0, "It goes on: building or measuring the library.\n")
    assert refused(check.name, "--run-now")[0] == 2
    assert "Is the site running?" in refused(check.name, "--wait", "--wait-s", "0")[1]

    def measured(_: float) -> None:
        CheckResult.objects.update(verdict="regression", latency_s=1.0, base_s=0.5, change=1.0, noise=0.1)

    monkeypatch.setattr(time, "sleep", measured)
    assert checked(check.name, "--wait", capsys=capsys)[0] == 1


def test_one_that_is_asked_for_twice_at_once_passes_only_once(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Somebody else was faster after it was looked whether a result goes on."""
    check = make_check()
    make_result(check)

    def too_late(*_: Any) -> CheckResult:
        return make_result(check, None, verdict="skipped", error="Result 1 still went on.")

    monkeypatch.setattr(checks, "do_now", too_late)
    assert checked(check.name, "--run-now", "--wait", capsys=capsys) == (2, "skipped: Result 1 still went on.\n")


def test_one_that_is_deleted_while_it_is_waited_for_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    check = make_check()
    monkeypatch.setattr(time, "sleep", lambda _: checks.delete(check))
    assert refused(check.name, "--run-now", "--wait") == (2, "The check was deleted meanwhile.")


def test_a_check_that_is_not_known_or_ambiguous_is_named(capsys: Any) -> None:
    assert refused("nothing") == (2, "There is no check 'nothing'.")
    first = make_check(name="nightly")
    other = Project.objects.create(name="vision")
    make_result(make_check(measured_run(project=other), name="nightly"))
    assert "say which by --project: default, vision" in refused("nightly")[1]
    assert checked("nightly", "--project", "vision", capsys=capsys)[0] == 0
    assert "in the project audio" in refused("nightly", "--project", "audio")[1]
    assert RegressionCheck.objects.filter(pk=first.pk).exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nightly", "--no-compile"), "--no-compile: not with a check."),
        (("nightly", "--base", "1"), "--base: not with a check."),
        (("1", "--run-now", "--wait"), "--run-now, --wait: not with a run."),
    ],
)
def test_options_of_the_other_kind_are_refused(args: tuple[str, ...], said: str) -> None:
    assert refused(*args) == (2, said)
