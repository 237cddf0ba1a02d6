from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from dashboard.forms import MENU, ExtensionForm, ExtractForm, LaunchForm
from tests import older_tvm
from tests.world import TARGET, make_machine, make_run, make_user
from tuning.actions import launching
from tuning.engines.wire.engines import ENGINES
from tuning.host import targets
from tuning.models import Run
from tuning.reads import network_list
from tuning.validation import Invalid

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Signed in. Targets are resolved without TVM, which the tests of tuning.host.targets use."""
    resolved: targets.TargetDict = {"target": TARGET, "device": "cpu", "label": "llvm · znver4 · 2 cores"}
    monkeypatch.setattr(targets, "resolve", lambda _target: resolved)
    client.force_login(make_user("operator"))
    return client


def somebody() -> User:
    """An operator: the one who is signed in, if somebody is."""
    return User.objects.filter(username="a-operator").first() or make_user("operator")


def filled(**changes: Any) -> dict[str, Any]:
    """What a browser sends if only `changes` are made in the form."""
    form = LaunchForm(somebody())
    fields = {name: form[name].value() for name in form.fields}
    return {name: "" if value is None else value for name, value in (fields | changes).items()}


def test_it_offers_every_network_and_option(operator: Client) -> None:
    page = operator.get("/runs/new/")
    for network in network_list.networks(None):
        assertContains(page, network["title"])
        for option in network["options"]:
            assertContains(page, f'name="network_options.{network["name"]}.{option["name"]}"')
    for option in launching.tuning_options():
        assertContains(page, f'name="{option["name"]}"')


def test_it_launches_with_the_defaults(operator: Client) -> None:
    answer = operator.post("/runs/new/", filled())
    run = Run.objects.get()
    assertRedirects(answer, f"/runs/{run.pk}/")
    assert run.created_by is not None
    assert run.created_by.username == "a-operator"
    assert run.network_name == network_list.networks(None)[0]["name"]
    defaults = {option["name"]: option["default"] for option in launching.tuning_options() if option["name"] != "seed"}
    assert {name: run.options[name] for name in defaults} == defaults


def test_it_launches_what_was_entered(operator: Client) -> None:
    entered = {"network": "matmul", "network_options.matmul.n": "64", "trials": "8", "seed": "7", "name": "mine"}
    operator.post("/runs/new/", filled(**entered))
    run = Run.objects.get()
    assert (run.name, run.trials_budget, run.options["seed"]) == ("mine", 8, 7)
    assert run.network_options["n"] == 64


def test_it_launches_a_run_again_with_its_settings(operator: Client) -> None:
    entered = {"network": "matmul", "network_options.matmul.n": "64", "trials": "8", "seed": "7", "name": "mine"}
    entered |= {
        "tasks": "0",
        "plateau_trials": "32",
        "plateau_percent": "0.5",
        "time_limit_s": "90",
        "warm_start": "false",
        "target": "llvm",
    }
    operator.post("/runs/new/", filled(**entered))
    first = Run.objects.get()
    page = operator.get(f"/runs/new/?like={first.pk}")
    assertContains(page, f'<a href="/runs/{first.pk}/">#{first.pk} mine</a>', html=True)
    form = page.context["form"]
    operator.post("/runs/new/", {name: form[name].value() or "" for name in form.fields})
    second = Run.objects.latest("pk")
    assert second.pk != first.pk
    for field in (
        "network",
        "target",
        "device",
        "engine",
        "project",
        "trials_budget",
        "time_limit_s",
        "machines_wanted",
    ):
        assert getattr(second, field) == getattr(first, field), field
    assert second.options | {"seed": 7} == first.options
    assert second.options["seed"] != 7, "drawn anew"
    assert second.name != "mine"


def test_it_continues_a_run_with_other_options(operator: Client) -> None:
    operator.post("/runs/new/", filled(network="matmul", target="llvm", strategy="evolutionary"))
    first = Run.objects.get()
    refused = operator.get(f"/runs/new/?continues={first.pk}")
    assertContains(refused, f"Run #{first.pk} can’t be continued: it is queued")
    Run.objects.update(status="finished", tasks_measured=1, trials_done=12)
    page = operator.get(f"/runs/new/?continues={first.pk}")
    assertContains(page, "the search begins with its 12 trials")
    form = page.context["form"]
    sent = {name: form[name].value() or "" for name in form.fields}
    wrong = operator.post("/runs/new/", sent | {"network": "mlp"})
    assert wrong.status_code == 422
    assert wrong.context["form"].errors.keys() == {"network"}
    assertContains(wrong, "the search begins with its 12 trials", status_code=422)
    operator.post("/runs/new/", sent | {"strategy": "replay-trace"})
    second = Run.objects.get(continues=first)
    shown = operator.get(f"/runs/{second.pk}/")
    assertContains(shown, "strategy evolutionary → replay-trace")
    assertContains(shown, f'<a href="/runs/{first.pk}/" title="{first.name}">#{first.pk}</a>', html=True)
    back = operator.get(f"/runs/{first.pk}/")
    assertContains(back, f'continued by <a href="/runs/{second.pk}/"')
    assertContains(back, f'href="/runs/new/?continues={first.pk}"')
    Run.everything.filter(pk=first.pk).update(deleted_at=timezone.now())
    assertContains(operator.get(f"/runs/{second.pk}/"), f"#{first.pk}, which was deleted,")


def varied(**values: str) -> dict[str, str]:
    """What a browser sends of these options and their values."""
    rows = enumerate(values.items(), 1)
    return {
        name: text
        for n, row in rows
        for name, text in zip((f"variant_option_{n}", f"variant_values_{n}"), row, strict=True)
    }


def test_what_the_form_begins_with_is_planned_at_once(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "resolve", lambda _: pytest.fail("TVM was asked"))
    values = urlencode({"network": "matmul", "trials": "320", **varied(seed="1, 2")})
    page = operator.get(f"/runs/new/?{values}")
    assert page.context["plan"] == "2 runs of 320 trials each, 640 trials in all."
    assertContains(page, "Each task gets 4 or fewer trials before scheduling begins")
    assertContains(page, '<details class="panel fold" data-role="variants" open>')


def test_it_launches_a_run_for_each_combination(operator: Client) -> None:
    entered = {
        "network": "mlp",
        "trials": "8",
        "name": "grid",
        **varied(strategy="evolutionary, replay-trace", seed="1,2,3"),
    }
    answer = operator.post("/runs/new/", filled(**entered))
    runs = list(Run.objects.order_by("pk"))
    found = [(run.options["strategy"], run.options["seed"]) for run in runs]
    assert found == [(strategy, seed) for strategy in ("evolutionary", "replay-trace") for seed in (1, 2, 3)]
    assert runs[1].name == "grid (strategy=evolutionary, seed=2)"
    keys = ",".join(str(run.pk) for run in runs)
    assertRedirects(answer, f"/compare/?runs={keys}")
    tags = [list(run.tags.values_list("name", flat=True)) for run in runs]
    assert tags == [[f"variants-{runs[0].pk}"]] * 6
    assertContains(operator.get(f"/compare/?runs={keys}"), f'href="/runs/new/?like={runs[0].pk}"')


def test_variants_share_the_seed_that_is_drawn(operator: Client) -> None:
    answer = operator.post("/runs/new/", filled(network="mlp", **varied(trials=",".join(map(str, range(8, 18))))))
    runs = list(Run.objects.order_by("pk"))
    assert [run.trials_budget for run in runs] == list(range(8, 18))
    assert len({run.options["seed"] for run in runs}) == 1
    assertRedirects(answer, f"/runs/?tag=variants-{runs[0].pk}")


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ({"strategy": "evolutionary, greedy"}, "strategy=greedy: strategy: Must be one of"),
        ({"seed": "1, 2, 2"}, "seed=2 and seed=2 are the same run."),
        ({"time_limit_s": "90, 90.0"}, "time_limit_s=90 and time_limit_s=90.0 are the same run."),
        ({"seed": ",".join(map(str, range(25)))}, "2 to 24 runs can be launched at once, not 25."),
        ({"seed": "1"}, "not 1."),
        ({"seed": ""}, "seed: enter a list of values."),
        ({"": "1, 2"}, "Choose which option these values are for."),
        ({"tasks": "0, 1"}, "can&#x27;t be varied"),
    ],
    ids=["invalid", "twice", "same", "many", "one", "none", "nameless", "lists"],
)
def test_wrong_variants_launch_nothing(operator: Client, variants: dict[str, str], said: str) -> None:
    answer = operator.post("/runs/new/", filled(network="mlp", **varied(**variants)))
    assertContains(answer, said, status_code=422)
    assert not Run.objects.exists()


def test_the_check_tells_how_many_runs_the_variants_are(operator: Client) -> None:
    entered = filled(network="mlp", trials="320", **varied(seed="1, 2, 3", warm_start="true, false"))
    told = operator.post("/runs/new/check/", entered).json()
    assert (told["plan"], told["fields"]) == ("6 runs of 320 trials each, 1,920 trials in all.", {})
    told = operator.post("/runs/new/check/", filled(network="mlp", **varied(seed="1, x"))).json()
    assert told["plan"] == ""
    assert told["fields"]["variant_values_1"].startswith("seed=x: seed: ")
    assert operator.post("/runs/new/check/", filled(network="mlp")).json()["plan"] == ""


def test_variants_are_launched_by_the_api(operator: Client) -> None:
    body = {"network": "mlp", "trials": 8, "variants": {"seed": [1, 2]}}
    answer = operator.post("/api/v1/runs/variants", body, content_type="application/json")
    assert answer.status_code == 201
    told = answer.json()
    assert [run["options"]["seed"] for run in told["items"]] == [1, 2]
    assert told["tag"] == f"variants-{told['items'][0]['id']}"
    answer = operator.post("/api/v1/runs/variants", {"network": "mlp"}, content_type="application/json")
    assert answer.json()["error"]["fields"] == {"variants": "Must be an object of options, each with a list of values."}


def test_what_cannot_be_chosen_anymore_is_told(operator: Client) -> None:
    run = make_run(device="rpc:lab/board", interpreter="tvm0.8", engine="autotvm")
    page = operator.get(f"/runs/new/?like={run.pk}")
    assertContains(page, "The interpreter tvm0.8 and the device rpc:lab/board can’t be chosen anymore")
    failed = make_run(status="failed", error="It broke.")
    page = operator.get(f"/runs/new/?like={failed.pk}")
    assertContains(page, 'data-role="like"')
    assertNotContains(page, 'data-role="gone"')


def test_names_between_backticks_are_shown_as_code(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_target: object) -> None:
        raise Invalid({"target": "Must be `this` or <b>`a & b`</b>."})

    monkeypatch.setattr(targets, "resolve", refuse)
    page = operator.post("/runs/new/", filled(network="mlp"))
    said = "Must be <code>this</code> or &lt;b&gt;<code>a &amp; b</code>&lt;/b&gt;."
    assertContains(page, said, status_code=422)


def test_only_what_the_site_tunes_can_be_launched_again(operator: Client) -> None:
    runs = [make_run(origin=Run.Origin.IMPORTED), make_run(synthetic=True)]
    for run in runs:
        assertNotContains(operator.get(f"/runs/{run.pk}/"), "Launch again")
        assert operator.get(f"/runs/new/?like={run.pk}").status_code == 404
    assertContains(operator.get(f"/runs/{make_run().pk}/"), "Launch again")
    assert operator.get(f"/runs/new/?like={10**30}").status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("trials", "0"),
        ("trials", "99999999"),
        ("trials", "many"),
        ("trials_per_batch", "-3"),
        ("seed", "1.5"),
        ("build_timeout_s", "0"),
        ("strategy", "luck"),
        ("network_options.mlp.batch", "0"),
        ("network", "nonsense"),
        ("name", "two\nlines"),
    ],
)
def test_it_shows_errors_at_their_fields(operator: Client, field: str, value: str) -> None:
    page = operator.post("/runs/new/", filled(**{field: value, "target": "kept as it was"}))
    assert page.status_code == 422
    assert list(page.context["form"].errors) == [field]
    assertContains(page, escape(page.context["form"].errors[field][0]), status_code=422)
    assertContains(page, "kept as it was", status_code=422)
    assertContains(page, f'aria-describedby="id_{field}_error about_{field}"', int(field != "network"), status_code=422)
    assert not Run.objects.exists()


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_target_is_refused_by_form_and_api(operator: Client, empty: str) -> None:
    page = operator.post("/runs/new/", filled(target=empty))
    assert page.status_code == 422
    assert list(page.context["form"].errors) == ["target"]
    answer = operator.post("/api/v1/runs", {"network": "mlp", "target": empty}, content_type="application/json")
    assert answer.status_code == 422
    assert list(answer.json()["error"]["fields"]) == ["target"]
    assert not Run.objects.exists()
    assert operator.post("/api/v1/runs", {"network": "mlp"}, content_type="application/json").status_code == 201


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("trials", "trials"),
        ("repeat", "repeat"),
        ("strategy", "strategy"),
        ("network_options.mlp.batch", "network_options.batch"),
    ],
)
def test_an_option_that_is_emptied_is_refused_unless_empty_means_something(
    operator: Client, field: str, name: str
) -> None:
    page = operator.post("/runs/new/", filled(**{field: "", "seed": "", "time_limit_s": ""}))
    assert page.status_code == 422
    assert list(page.context["form"].errors) == [field]
    assertContains(page, "and can&#x27;t be empty.", status_code=422)
    given = {"network_options": {"batch": ""}} if "." in name else {name: ""}
    answer = operator.post("/api/v1/runs", {"network": "mlp", "seed": "", **given}, content_type="application/json")
    assert answer.status_code == 422
    assert list(answer.json()["error"]["fields"]) == [name]
    assert not Run.objects.exists()


def test_no_field_holds_grey_text_that_could_pass_for_its_value(operator: Client) -> None:
    """What an empty field means is said below it."""
    for number in range(MENU + 1):
        make_machine(f"lab-{number}")
    fields = [field for form in (LaunchForm(somebody()), ExtensionForm(), ExtractForm([])) for field in form]
    assert not [field.name for field in fields if "placeholder" in field.field.widget.attrs]
    for engine in ENGINES:
        for option in (*launching.budget_options(), *launching.tuning_options(engine)):
            assert not option["optional"] or "mpty" in option["description"], f"{engine}: {option['name']}"


def test_it_expands_advanced_options_with_errors(operator: Client) -> None:
    assert not LaunchForm(somebody()).advanced_changed()
    page = operator.post("/runs/new/", filled(repeat="0"))
    assert page.context["form"].advanced_changed()


def test_it_shows_a_target_error_at_the_target(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_target: Any) -> targets.TargetDict:
        raise Invalid({"target": "There is no such tag."})

    monkeypatch.setattr(targets, "resolve", refuse)
    page = operator.post("/runs/new/", filled(target="nvidia/none"))
    assert page.context["form"].errors == {"target": ["There is no such tag."]}


def test_it_says_how_many_runs_are_ahead(operator: Client) -> None:
    assertContains(operator.get("/runs/new/"), "is free")
    make_run()
    assertContains(operator.get("/runs/new/"), "has 1 run ahead")


def test_it_is_for_operators(client: Client) -> None:
    client.force_login(make_user("viewer"))
    assert client.get("/runs/new/").status_code == 403
    assert client.post("/runs/new/", filled()).status_code == 403
    assert not Run.objects.exists()


def test_each_network_is_listed_once_in_its_family() -> None:
    families = LaunchForm(somebody()).families()
    shown = [choice["network"] for _, choices in families for choice in choices]
    assert shown == network_list.networks(None)
    assert len({family for family, _ in families}) == len(families)
    assert all(choice["network"]["family"] == family for family, choices in families for choice in choices)
    assert sum(choice["chosen"] for _, choices in families for choice in choices) == 1


def test_the_url_fills_the_form_and_expands_changed_options(operator: Client) -> None:
    url = "/runs/new/?network=matmul&network_options.matmul.n=64&target=nvidia%2Fnvidia-a100&tasks=0%2C+2&nonsense=1"
    form = operator.get(url).context["form"]
    assert [form[name].value() for name in ("network", "network_options.matmul.n", "target", "tasks")] == [
        "matmul",
        "64",
        "nvidia/nvidia-a100",
        "0, 2",
    ]
    assert form.advanced_changed()


def test_it_warns_about_unusual_values(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    warned: targets.TargetDict = {
        "target": TARGET,
        "device": "cpu",
        "label": "znver4",
        "warning": "It leaves out avx2.",
    }
    monkeypatch.setattr(targets, "resolve", lambda _target: warned)
    checked = operator.post("/runs/new/check/", filled(target="llvm")).json()
    assert checked.pop("first_pass").startswith("Each task gets 4 or fewer trials before scheduling begins")
    assert checked == {"plan": "", "fields": {}, "warnings": {"target": "It leaves out avx2."}, "target": "znver4"}
    assert not Run.objects.exists()
    page = operator.post("/runs/new/", filled(target="llvm"), follow=True)
    assertContains(page, "It leaves out avx2.")


def test_it_tells_what_is_wrong_before_it_is_sent(operator: Client) -> None:
    entered = {"network": "mlp", "network_options.mlp.batch": "0", "trials": "many", "target": ""}
    checked = operator.post("/runs/new/check/", filled(**entered)).json()
    assert checked["fields"].keys() == {"network_options.mlp.batch", "trials", "target"}
    assert checked["fields"]["trials"] == "Must be a whole number from 1 to 1,000,000, not 'many'."
    assert (checked["warnings"], checked["target"]) == ({}, None)
    assert not Run.objects.exists()


def test_it_offers_the_tags_that_tvm_knows(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "tags", lambda: ["arm/rasp4b"])
    assert operator.get("/runs/new/tags/").json() == {"tags": ["arm/rasp4b"]}


def test_it_offers_one_engine_if_there_is_no_older_tvm(operator: Client) -> None:
    assert "data-engine" not in operator.get("/runs/new/?engine=autotvm").content.decode()


@pytest.mark.parametrize("engine", ["auto_scheduler", "autotvm"])
def test_it_has_the_options_of_the_chosen_engine(
    operator: Client, settings: Any, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    older_tvm.name(settings, monkeypatch, "tvm0.8", "tvm0.9")
    assertContains(operator.get("/runs/new/"), f'data-engine="{engine}"')
    page = operator.get(f"/runs/new/?engine={engine}")
    assertContains(page, "tvm0.8")
    for option in launching.tuning_options(engine):
        assertContains(page, f'name="{option["name"]}"')
    for network in network_list.builtin_networks(engine):
        assertContains(page, network["title"])
    entered = {"engine": engine, "interpreter": "tvm0.9", "network": "mlp", "trials": "8", "target": "llvm"}
    operator.post("/runs/new/", entered)
    run = Run.objects.get()
    assert (run.engine, run.interpreter, run.trials_budget) == (engine, "tvm0.9", 8)
    assertContains(operator.get(f"/runs/{run.pk}/"), engine)


def test_errors_of_an_older_engine_are_shown_at_their_fields(
    operator: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    older_tvm.name(settings, monkeypatch)
    entered = {"engine": "autotvm", "network": "mobilenet", "tuner": "droplet", "target": "cuda"}
    answer = operator.post("/runs/new/", entered)
    assert answer.status_code == 422
    assertContains(answer, "Must be one of xgb", status_code=422)
    assertContains(answer, "finds no such device", status_code=422)


def test_of_many_machines_one_is_found_by_its_name(operator: Client) -> None:
    for number in range(MENU + 1):
        make_machine(f"lab-{number}")
    page = operator.get("/runs/new/")
    assertContains(page, '<option value="lab-7">lab-7 (znver4, 2 cores)</option>', html=True)
    assertContains(page, '<option value="16"></option><option value="all"></option>', html=True)
    assertNotContains(page, '<select name="machine')
    assert not page.context["form"]["machine"].value(), "what is written there would hide other names"
    fields = filled(target=json.dumps(TARGET))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targets, "resolve_elsewhere", targets.resolve)
        assert operator.post("/runs/new/", fields).status_code == 302
        again = operator.post("/runs/new/", fields | {"machine": "lab-99"})
    assertContains(again, 'value="lab-99"', status_code=422)
    assertContains(again, "There is no machine &#x27;lab-99&#x27;.", status_code=422)
    run = Run.objects.get()
    assert (run.chosen_machine, run.machines_wanted) == (None, 1)


def test_a_few_machines_are_a_menu(operator: Client) -> None:
    for number in range(2):
        make_machine(f"lab-{number}")
    page = operator.get("/runs/new/")
    assertContains(page, '<option value="lab-1">lab-1 (znver4, 2 cores)</option>', html=True)
    assertNotContains(page, "machine-names")
