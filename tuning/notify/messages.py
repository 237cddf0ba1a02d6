"""What webhooks say about a run or compilation that has ended."""

from __future__ import annotations

from typing import Any

from tuning.models import CheckResult, Compilation, RegressionCheck, Run, iso, username
from tuning.models.checking import told

VERBS = {"failed": "has failed", "stopped": "was stopped", "finished": "has finished", "interrupted": "was interrupted"}


def about(ended: Run | Compilation) -> tuple[str, dict[str, Any]]:
    """The kind of message, such as `run.finished`, and its content. The row is read again, since the instance may be stale."""
    if isinstance(ended, Run):
        run = Run.objects.select_related("network", "project", "created_by").get(pk=ended.pk)
        return f"run.{run.status}", about_run(run)
    compilation = Compilation.objects.shown().get(pk=ended.pk)
    return f"compilation.{compilation.status}", about_compilation(compilation)


def about_check(check: RegressionCheck, result: CheckResult) -> tuple[str, dict[str, Any]]:
    """That a regression check's network became slower or couldn't be measured, or is good again. Latencies in seconds."""
    state = check.State(check.state)
    shown = result.to_dict()
    names = ("verdict", "error", "run", "compilation", "machine", "latency_s", "base_s", "change", "noise")
    return f"regression_check.{state}", {
        "path": f"/regressions/{check.pk}/",
        "text": f"Regression check {_plain(check.name)}: {_plain(told(result))}",
        "id": check.pk,
        "name": check.name,
        "state": state,
        "network": check.network.name,
        "network_options": check.network.options,
        "target": check.target,
        "device": check.device,
        "result": result.pk,
        "ended_at": iso(result.ended_at),
        **{name: shown[name] for name in names},  # type: ignore[literal-required]
    }


def about_test(asked_by: str) -> tuple[str, dict[str, Any]]:
    return "test", {"path": "/", "text": f"Tuneboard reaches this address. {asked_by} asked for this test."}


def about_run(run: Run) -> dict[str, Any]:
    """Latencies and `elapsed_s` in seconds, times in ISO 8601."""
    return {
        "path": f"/runs/{run.pk}/",
        "text": _sentence(run),
        "id": run.pk,
        "name": run.name,
        "status": run.status,
        "finish_reason": run.finish_reason,
        "error": run.error,
        "network": run.network_name,
        "network_options": run.network_options,
        "target": run.target,
        "device": run.device,
        "trials_budget": run.trials_budget,
        "trials_done": run.trials_done,
        "trials_failed": run.trials_failed,
        "tasks_chosen": run.tasks_chosen,
        "tasks_measured": run.tasks_measured,
        "estimated_latency_s": run.estimated_latency_s,
        "elapsed_s": run.elapsed_s,
        "created_by": username(run.created_by),
        "created_at": run.created_at.isoformat(),
        "started_at": iso(run.started_at),
        "finished_at": iso(run.finished_at),
    }


def _plain(text: str) -> str:
    """Text that users wrote, so that a chat neither formats it nor notifies anybody: Slack's entities, and broken mentions and links."""
    entities = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return entities.replace("@", "@\u200b").replace("](", "]\u200b(")


def _sentence(run: Run) -> str:
    """The one line that a chat shows."""
    of = "" if run.trials_budget is None else f" of {run.trials_budget:,}"
    measured = f"{run.trials_done:,}{of} trials, {run.trials_failed:,} failed"
    estimate = "no estimate" if run.estimated_latency_s is None else f"{run.estimated_latency_s * 1e3:.4g} ms estimated"
    why = f" {_plain(run.error.strip().splitlines()[0])}" if run.error and run.error.strip() else ""
    return f"Run {run.pk} ({_plain(run.name)}) {VERBS.get(run.status, run.status)}: {estimate}, {measured}.{why}"


def about_compilation(compilation: Compilation) -> dict[str, Any]:
    """As the API shows it, without the long parts."""
    shown = compilation.to_dict()
    names = (
        *("id", "run", "run_name", "network", "target", "device", "source", "status", "error", "created_by"),
        *("created_at", "started_at", "finished_at", "coverage", "verified", "max_abs_error", "estimate_s"),
        *("measured_s", "speedup"),
    )
    said = f"Compilation {compilation.pk} of run {shown['run']} ({_plain(shown['run_name'])}): {shown['status']}"
    measured = f", {shown['measured_s'] * 1e3:.4g} ms measured" if shown["measured_s"] is not None else ""
    return {
        "path": f"/compilations/{compilation.pk}/",
        "text": f"{said}{measured}.",
        **{name: shown[name] for name in names},  # type: ignore[literal-required]
    }
