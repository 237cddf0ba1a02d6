"""The comparison's page asks for a measurement side by side, follows it, and shows what came of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from dashboard.accounts import put_into_role
from tests.dashboard.views.runs.test_compare import address
from tests.tuning.reads.test_comparing import measured
from tests.world import make_user, measured_beside, record_trials, set_beside
from tuning.models import Project, Run, SideBySide
from tuning.queue import jobs

pytestmark = pytest.mark.django_db
NBSP = "\u00a0"


@pytest.fixture(autouse=True)
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(make_user("operator"))
    return client


@pytest.fixture
def runs() -> list[Run]:
    return [measured(), measured()]


def hidden(page: str) -> dict[str, str]:
    """What the form would send besides its token."""
    form = page.partition('action="/compare/measure/"')[2].partition("</form>")[0]
    return {
        name: value
        for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)
        if name != "csrfmiddlewaretoken"
    }


def beside(runs: Sequence[Run], second: float = 0.9) -> SideBySide:
    """A finished measurement: the second run takes so many times as long as the first."""
    rounds = [1e-3, 1.01e-3, 0.99e-3, 1e-3, 1.02e-3]
    factors = {(0, 0): 1.0, (0, 1): 3.0, (1, 0): second, (1, 1): 3.0 * second}
    return measured_beside(runs, {key: [factor * one for one in rounds] for key, factor in factors.items()})


def test_its_button_queues_it_and_leads_back_to_the_view(operator: Client, runs: list[Run]) -> None:
    url = address(*runs, baseline=runs[1].pk, x="time")
    fields = hidden(operator.get(url).content.decode())
    assert fields == {"runs": f"{runs[0].pk},{runs[1].pk}", "baseline": str(runs[1].pk), "x": "time"}
    assertRedirects(operator.post("/compare/measure/", fields), url)
    row = SideBySide.objects.get()
    assert (row.status, row.created_by and row.created_by.username) == ("queued", "a-operator")
    page = operator.get(url)
    assertContains(page, "Side by side: waiting for cpu")
    assertContains(
        page, f'hx-get="/comparisons/{row.pk}/?runs={runs[0].pk},{runs[1].pk}&amp;baseline={runs[1].pk}&amp;x=time"'
    )
    assertNotContains(page, 'data-role="measure-side-by-side"')


def test_it_says_why_it_is_not_possible(operator: Client, runs: list[Run]) -> None:
    Run.objects.filter(pk=runs[1].pk).update(engine="autotvm")
    page = operator.get(address(*runs))
    why = f"Run {runs[1].pk} was tuned with an older TVM's autotvm: only MetaSchedule's records can be measured side by side."
    assertContains(page, escape(why))
    assert re.search(r'data-role="measure-side-by-side" disabled', page.content.decode())
    answer = operator.post("/compare/measure/", hidden(page.content.decode()), follow=True)
    assertContains(answer, escape(why), count=2)


def test_a_choice_that_does_not_exist_is_refused(operator: Client, runs: list[Run]) -> None:
    answer = operator.post("/compare/measure/", {"runs": f"{runs[0].pk},99999"}, follow=True)
    assertContains(answer, "Not measured. There is no run 99999.")


def test_its_progress_is_shown_until_it_has_ended(operator: Client, runs: list[Run]) -> None:
    row = set_beside(runs)
    assert row.claim()
    row.held().update(phase="measuring", progress=0.4)
    part = operator.get(f"/comparisons/{row.pk}/", {"runs": f"{runs[1].pk},{runs[0].pk}"})
    assertContains(part, 'value="0.4"')
    assertContains(part, "Side by side: measuring them in turn")
    assertContains(part, f'name="runs" value="{runs[1].pk},{runs[0].pk}"')
    assert "HX-Refresh" not in part.headers
    assert row.finish(to=SideBySide.Status.FAILED, error="It crashed.")
    ended = operator.get(f"/comparisons/{row.pk}/")
    assert ended.headers["HX-Refresh"] == "true"
    assertContains(operator.get(address(*runs)), "It crashed.")


def test_it_is_cancelled(operator: Client, runs: list[Run]) -> None:
    row = set_beside(runs)
    fields = {"runs": f"{runs[1].pk},{runs[0].pk}", "scale": "linear"}
    answer = operator.post(f"/comparisons/{row.pk}/cancel/", fields)
    assertRedirects(answer, f"/compare/?runs={runs[1].pk},{runs[0].pk}&scale=linear")
    row.refresh_from_db()
    assert row.status == "cancelled"
    again = operator.post(f"/comparisons/{row.pk}/cancel/", fields, follow=True)
    assertContains(again, "The measurement is cancelled: only a queued or running one can be cancelled.")


def test_its_result_has_a_column_and_the_conclusion_rests_on_it(operator: Client, runs: list[Run]) -> None:
    Run.objects.filter(pk=runs[1].pk).update(estimated_latency_s=99.0)
    beside(runs)
    page = operator.get(address(*runs)).content.decode().replace(NBSP, " ")
    assert "Measured side by side</th>" in page
    column = re.findall(r'data-role="beside">(.*?)</td>', page)
    assert column[0].startswith("<strong>7.000 ms</strong> ± ")
    assert column[1].startswith("<strong>6.300 ms</strong> ± ")
    assert 'title="Noise of the difference: ± 0.0 %"><span class="good">−10.0 %</span></small>' in column[1]
    assert page.count("8.100 ms ± ") == 0
    assert page.count("5.400 ms ± ") == 1, "the second task, × weight"
    first, second = (run.pk for run in runs)
    assert (
        f"Measured side by side, #{second} takes 10.0 % less time than #{first}: 6.300 ms instead of 7.000 ms." in page
    )
    assert "on cpu: 5 rounds of 2 tasks" in page
    assert "Measure side by side again" in page


def test_within_noise_neither_is_faster(operator: Client, runs: list[Run]) -> None:
    restless = [1.03, 0.99, 1.0, 1.02, 0.97]
    rounds = {
        (place, index): [1e-3 * (one if place else 1) for one in restless] for place in (0, 1) for index in (0, 1)
    }
    measured_beside(runs, {**rounds, (1, 0): [one * 1.004 for one in rounds[1, 0]]})
    page = operator.get(address(*runs)).content.decode().replace(NBSP, " ")
    assert "That is within noise" in page
    assert ", within noise</small>" in page


def test_a_run_that_got_better_since_is_not_judged_by_it(operator: Client, runs: list[Run]) -> None:
    beside(runs)
    Run.objects.filter(pk=runs[1].pk).update(status="running")
    runs[1].refresh_from_db()
    record_trials(runs[1], [(0, 0.1e-3)])
    page = operator.get(address(*runs)).content.decode().replace(NBSP, " ")
    assert f"Run {runs[1].pk} has better records since: measure again to compare these." in page
    assert "not its best records anymore" in page
    assert "Measured side by side, #" not in page


def test_what_could_not_be_measured_is_named(operator: Client, runs: list[Run]) -> None:
    rounds = [1e-3] * 5
    measured_beside(runs, {(0, 0): rounds, (1, 0): rounds, (0, 1): rounds, (1, 1): []})
    page = operator.get(address(*runs)).content.decode().replace(NBSP, " ")
    assert (
        f"The record of trial 2 of run {runs[1].pk} couldn’t be measured, so its task is left out: It crashed." in page
    )
    assert f"Measured side by side over 1 of 2 tasks, #{runs[1].pk} takes as long as #{runs[0].pk}: 1.000 ms." in page


def test_others_who_used_the_machine_meanwhile_are_told_of(operator: Client, runs: list[Run]) -> None:
    told = "Other processes used 1.3 of 2 processors meanwhile: measure again once they have ended."
    row = beside(runs)
    assert told not in operator.get(address(*runs)).content.decode()
    SideBySide.objects.filter(pk=row.pk).update(others_cores=1.3, cpus=2)
    assert told in operator.get(address(*runs)).content.decode()


def test_without_one_there_is_no_column(operator: Client, runs: list[Run]) -> None:
    page = operator.get(address(*runs))
    assertNotContains(page, 'data-role="beside"')
    assertNotContains(page, 'data-role="side-by-side-how"')


def test_who_may_not_change_each_of_the_runs_is_refused(client: Client) -> None:
    """Operators of the first project who look on in the other."""
    vision = Project.objects.create(name="vision")
    runs = [measured(), measured(project=vision)]
    person = make_user("operator")
    put_into_role(person, "viewer", vision)
    client.force_login(person)
    page = client.get(address(*runs))
    assertNotContains(page, 'data-role="measure-side-by-side"')
    fields = {"runs": ",".join(str(run.pk) for run in runs)}
    assert client.post("/compare/measure/", fields).status_code == 403
    row = set_beside(runs)
    assertNotContains(client.get(f"/comparisons/{row.pk}/"), 'data-role="cancel-side-by-side"')
    assert client.post(f"/comparisons/{row.pk}/cancel/").status_code == 403
    assert list(SideBySide.objects.values_list("status", flat=True)) == ["queued"]


def of_api(client: Client, path: str, body: Any) -> Any:
    return client.post(f"/api/v1/{path}", body, content_type="application/json")


def test_the_api_queues_shows_and_cancels_it(operator: Client, runs: list[Run]) -> None:
    keys = [run.pk for run in runs]
    made = of_api(operator, "comparisons", {"runs": keys})
    assert made.status_code == 201
    shown = made.json()
    assert (shown["runs"], shown["status"], shown["measured"], shown["device"]) == (keys, "queued", [], "cpu")
    path = f"comparisons/{shown['id']}"
    assert operator.get(f"/api/v1/{path}").json() == shown
    twice = of_api(operator, "comparisons", {"runs": keys[::-1]})
    assert (twice.status_code, twice.json()["error"]["message"]) == (
        409,
        "These runs are being measured side by side already.",
    )
    assert of_api(operator, f"{path}/cancel", {}).json()["status"] == "cancelled"
    assert of_api(operator, f"{path}/cancel", {}).status_code == 409
    finished = beside(runs)
    found = operator.get(f"/api/v1/comparisons/{finished.pk}").json()
    assert [(one["run"], one["trial"], len(one["latencies_s"])) for one in found["measured"]] == [
        (keys[0], 3, 5),
        (keys[0], 2, 5),
        (keys[1], 3, 5),
        (keys[1], 2, 5),
    ]


@pytest.mark.parametrize("body", [{}, {"runs": [1]}, {"runs": "1,2"}, {"runs": [1, 2, 2]}, {"runs": [99998, 99999]}])
def test_the_api_refuses_what_is_no_choice(operator: Client, body: dict[str, Any]) -> None:
    answer = of_api(operator, "comparisons", body)
    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (422, ["runs"])
