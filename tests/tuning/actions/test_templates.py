"""Settings of launches that are kept under a name."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.world import TARGET, make_user
from tuning.actions import projects, runs
from tuning.actions.launches import templates
from tuning.actions.launching import Launch
from tuning.host import targets
from tuning.models import AuditEntry, LaunchTemplate, Project
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db
SETTINGS = {
    "network": "matmul",
    "network_options": {"n": 64},
    "target": "llvm",
    "trials": "8",
    "strategy": "replay-trace",
}


@pytest.fixture(autouse=True)
def without_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "resolve", lambda _: {"target": TARGET, "device": "cpu", "label": "znver4"})


def saved(called: str = "quick look", user: User | None = None, **settings: Any) -> LaunchTemplate:
    return templates.save({**SETTINGS, **settings, "template": called}, user)[0]


def launched(**data: Any) -> Launch:
    return Launch(templates.filled(data, None), None)


def wrong_with(**data: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        templates.save({**SETTINGS, "template": "quick look", **data}, None)
    return refused.value.fields


def test_a_launch_has_its_settings() -> None:
    ada = make_user("operator", "ada")
    template = saved(user=ada)
    assert (template.project, template.saved_by) == (Project.objects.default(), ada)
    launch = launched(template="quick look")
    direct = Launch(SETTINGS, None)
    for part in (
        "network",
        "network_options",
        "target",
        "device",
        "budget",
        "engine",
        "machine",
        "machines",
        "priority",
    ):
        assert getattr(launch, part) == getattr(direct, part), part
    assert launch.options.strategy == "replay-trace"
    assert launch.name == direct.name


def test_what_a_launch_says_itself_comes_first() -> None:
    saved()
    launch = launched(template="Quick Look", trials=16, strategy="evolutionary")
    assert (launch.network, launch.budget.trials, launch.options.strategy) == ("matmul", 16, "evolutionary")
    assert launched(template="quick look", network="mlp").network_options["batch"] == 1


def test_options_of_another_engine_are_left_out() -> None:
    saved()
    kept = templates.filled({"template": "quick look", "engine": "autotvm"}, None)
    assert kept["trials"] == 8
    assert "strategy" not in kept


@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_network_or_engine_is_the_templates(nothing: str | None) -> None:
    saved()
    launch = launched(template="quick look", network=nothing, engine=nothing)
    assert (launch.network, launch.network_options["n"], launch.options.strategy) == ("matmul", 64, "replay-trace")


def test_a_seed_and_a_name_are_kept_only_if_somebody_entered_them() -> None:
    assert saved("drawn").settings.keys().isdisjoint({"seed", "name"})
    seeds = {launched(template="drawn").options.seed for _ in range(3)}
    assert len(seeds) > 1
    template = saved("entered", seed="7", name=" mine ")
    assert (template.settings["seed"], template.settings["name"]) == (7, "mine")


def test_every_option_is_kept_so_that_another_default_changes_nothing() -> None:
    kept = saved().settings
    options = runs.launch(SETTINGS, None, enqueue=False).options
    assert kept.keys() >= options.keys() - {"seed"}
    assert kept["target"] == "llvm", "as it was entered, not as this machine resolves it"


def test_settings_that_could_not_be_launched_are_not_kept() -> None:
    assert wrong_with(trials=0, network="nothing", template="").keys() == {"trials", "network", "template"}
    assert wrong_with(strategy="guess").keys() == {"strategy"}
    assert wrong_with(replace="yes").keys() == {"replace"}
    assert not LaunchTemplate.objects.exists()


@pytest.mark.parametrize("name", ["", " ", "n" * 61, "a\nb", 7, None])
def test_its_name_is_one_line(name: Any) -> None:
    assert wrong_with(template=name) == {"template": "Must be one line of 1 to 60 characters."}


def test_another_of_the_same_name_is_replaced_only_if_that_is_asked_for() -> None:
    first = saved()
    assert wrong_with(template="QUICK LOOK") == {"template": templates.TAKEN}
    second, new = templates.save({**SETTINGS, "trials": 99, "template": "Quick look", "replace": True}, None)
    assert (second.pk, new) == (first.pk, False)
    assert LaunchTemplate.objects.get().settings["trials"] == 99
    assert AuditEntry.objects.filter(action="template.replace", object_kind="template", object_id=first.pk).exists()


def test_each_project_has_its_own() -> None:
    projects.create("vision")
    saved()
    elsewhere = templates.save({**SETTINGS, "project": "vision", "trials": 5, "template": "quick look"}, None)[0]
    assert elsewhere.project.name == "vision"
    assert launched(template="quick look", project="vision").budget.trials == 5
    assert launched(template="quick look").budget.trials == 8
    with pytest.raises(Invalid) as refused:
        launched(template="nothing", project="vision")
    assert refused.value.fields == {
        "template": "There is no template 'nothing' in the project vision. There are: quick look."
    }


def test_it_is_renamed_and_deleted() -> None:
    template, other = saved(), saved("other")
    templates.rename(template, "Other one")
    assert LaunchTemplate.objects.get(pk=template.pk).name == "Other one"
    templates.rename(template, "other One")
    with pytest.raises(Invalid):
        templates.rename(template, "OTHER")
    templates.delete(other)
    with pytest.raises(Conflict):
        templates.delete(other)
    with pytest.raises(Conflict):
        templates.rename(other, "again")


def test_a_project_takes_its_templates_with_it() -> None:
    vision = projects.create("vision")
    saved(project="vision")
    projects.delete(vision)
    assert not LaunchTemplate.objects.exists()
