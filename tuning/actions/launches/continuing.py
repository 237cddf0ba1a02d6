"""Runs that continue another one with other options: their search begins with all of its trials."""

from __future__ import annotations

from typing import Any

from tuning.host.targets import TargetDict
from tuning.models import Network, Project, Run, fingerprint
from tuning.validation import Invalid, natural
from tuning.wording import target_label


def chosen(given: Any, project: Project) -> Run | None:
    """The run that a launch continues; None for none. Raises `Invalid` if there is no such run in the project, or none can continue it."""
    if given in (None, ""):
        return None
    number = natural(given) if isinstance(given, str) else given
    if isinstance(number, bool) or not isinstance(number, int):
        raise Invalid({"continues": f"Must be the number of a run, not {str(given)[:60]!r}."})
    run = project.runs.filter(deleted_at=None, pk=number).select_related("network").first()
    if run is None:
        raise Invalid({"continues": f"There is no run {number} in the project {project}."})
    if why := run.why_not_continued:
        raise Invalid({"continues": f"Run {run.pk} can't be continued: {why}."})
    return run


def check(run: Run, engine: str, network: Network | None, target: TargetDict) -> None:
    """Raises `Invalid` that names what isn't as in the run that is continued: its records then wouldn't apply."""
    wrong: dict[str, str] = {}
    if engine != run.engine:
        wrong["engine"] = f"Run {run.pk}, which this one continues, was tuned by {run.engine}."
    if network != run.network:
        options = ", ".join(f"{name}={value}" for name, value in run.network_options.items())
        tuned = f"{run.network_name} with {options}" if options else run.network_name
        wrong["network"] = f"Run {run.pk}, which this one continues, tuned {tuned}: choose the same."
    if fingerprint(target["target"]) != run.target_fingerprint:
        wrong["target"] = (
            f"Run {run.pk}, which this one continues, was tuned for {target_label(run.target)}, not for {target['label']}: "
            "choose the same target."
        )
    if wrong:
        raise Invalid(wrong)
