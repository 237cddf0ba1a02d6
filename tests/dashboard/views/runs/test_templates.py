"""Templates on the launch form, and the page on which they are renamed and deleted."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from tests.dashboard.views.test_launch_form import filled, operator, varied
from tuning.models import LaunchTemplate, Run

__all__ = ("operator",)
pytestmark = pytest.mark.django_db
ENTERED = {
    "network": "matmul",
    "network_options.matmul.n": "64",
    "target": '{"kind": "llvm", "mcpu": "znver4"}',
    "trials": "8",
    "tasks": "0",
    "seed": "7",
    "warm_start": "false",
    "time_limit_s": "90",
}


def save(operator: Client, name: str = "quick", **more: str) -> LaunchTemplate:
    operator.post("/runs/new/templates/save/", filled(**ENTERED, **more, template_name=name))
    return LaunchTemplate.objects.get(name=name)


def test_the_form_holds_what_was_saved(operator: Client) -> None:
    assertNotContains(operator.get("/runs/new/"), 'data-role="templates"')
    answer = operator.post("/runs/new/templates/save/", filled(**ENTERED, template_name="quick"))
    template = LaunchTemplate.objects.get()
    assertRedirects(answer, f"/runs/new/?template={template.pk}")
    assert not Run.objects.exists()
    page = operator.get(f"/runs/new/?template={template.pk}")
    form = page.context["form"]
    assert {name: form[name].value() for name in ENTERED} == ENTERED
    assertContains(page, "With the settings of the template <strong>quick</strong>")
    assertContains(operator.get("/runs/new/"), f'<a href="?template={template.pk}">quick</a>', html=True)
    operator.post("/runs/new/", {name: form[name].value() or "" for name in form.fields})
    run = Run.objects.get()
    assert (run.network_options["n"], run.trials_budget, run.options["seed"]) == (64, 8, 7)


def test_the_variants_stay_in_the_form(operator: Client) -> None:
    answer = operator.post("/runs/new/templates/save/", filled(template_name="quick", **varied(seed="1, 2")))
    form = operator.get(answer.headers["Location"]).context["form"]
    assert form["variant_values_1"].value() == "1, 2"


def test_errors_stand_beside_their_fields(operator: Client) -> None:
    page = operator.post("/runs/new/templates/save/", filled(trials="none", template_name=" "))
    assert page.status_code == 422
    assert page.context["form"].errors.keys() == {"trials", "template_name"}
    assertContains(page, "Nothing was saved. 2 fields need to be corrected.", status_code=422)
    assert not LaunchTemplate.objects.exists()


def test_one_is_replaced_only_if_that_is_ticked(operator: Client) -> None:
    save(operator)
    again = filled(**ENTERED | {"trials": "9"}, template_name="quick")
    assert operator.post("/runs/new/templates/save/", again).status_code == 422
    assert operator.post("/runs/new/templates/save/", again | {"template_replace": "on"}).status_code == 302
    assert LaunchTemplate.objects.get().settings["trials"] == 9


def test_a_model_that_was_deleted_is_told(operator: Client) -> None:
    template = save(operator)
    LaunchTemplate.objects.update(settings=template.settings | {"network": "gone", "network_options": {}})
    page = operator.get(f"/runs/new/?template={template.pk}")
    assertContains(page, "The network gone can’t be chosen anymore")


def test_they_are_renamed_and_deleted_on_their_page(operator: Client) -> None:
    template, other = save(operator), save(operator, "other")
    page = operator.get("/runs/new/templates/")
    assertContains(page, f'href="/runs/new/?template={template.pk}"')
    assertContains(page, "matmul")
    refused = operator.post(f"/runs/new/templates/{template.pk}/rename/", {"name": "other"})
    assertContains(refused, "There is a template of that name in the project.", status_code=422)
    assertRedirects(
        operator.post(f"/runs/new/templates/{template.pk}/rename/", {"name": "slow"}), "/runs/new/templates/"
    )
    assertRedirects(operator.post(f"/runs/new/templates/{other.pk}/delete/"), "/runs/new/templates/")
    assert [one.name for one in LaunchTemplate.objects.all()] == ["slow"]
    assert operator.post(f"/runs/new/templates/{other.pk}/delete/").status_code == 404
