"""The compare page and its API."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from dashboard.presentation import units
from dashboard.presentation.comparing.figures import figures
from dashboard.presentation.comparing.view import View
from dashboard.templatetags.tuneboard import tone
from tests.tuning.reads.test_comparing import FAST, SLOW, measured
from tests.world import make_network, make_run, make_user, measured_run
from tuning.models import Run
from tuning.reads.comparing import compare, runs_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def address(*runs: Run, **query: Any) -> str:
    rest = "".join(f"&{name}={value}" for name, value in query.items())
    return f"/compare/?runs={','.join(str(run.pk) for run in runs)}{rest}"


def drawn(*runs: Run, **view: Any) -> Any:
    keys = tuple(run.pk for run in runs)
    found = runs_of(None, ",".join(map(str, keys)))
    baseline = next(run for run in found if run.pk == view.get("baseline", keys[0]))
    return figures(compare(found, baseline), View(keys, **({"baseline": baseline.pk} | view)))


def test_it_compares_runs_with_the_baseline(viewer: Client) -> None:
    fast, slow = measured(name="the fast one"), measured(SLOW, name="the slow one")
    page = viewer.get(address(fast, slow))
    assertContains(page, "the slow one")
    assertContains(page, "+35.7\u00a0%")
    assertContains(page, "+2.500\u00a0ms")
    assertContains(page, f'href="/runs/{slow.pk}/tasks/1/"')
    assertContains(page, "None: network, target, options and versions are the same.")
    other_way = viewer.get(address(fast, slow, baseline=slow.pk))
    assertContains(other_way, "−26.3\u00a0%")
    assertContains(other_way, "trial 2<")


def test_runs_with_the_same_name_are_told_apart_by_their_settings(viewer: Client) -> None:
    searched = measured(name="net", options={"strategy": "evolutionary", "overlap": True, "seed": 1})
    drawn_at_random = measured(name="net", options={"strategy": "replay-trace", "overlap": True, "seed": 2})
    page = viewer.get(address(searched, drawn_at_random))
    for strategy in ("evolutionary", "replay-trace"):
        assertContains(page, f'data-role="settings" title="strategy {strategy}">strategy {strategy}</small>')
    assertNotContains(viewer.get(address(searched, measured(options=searched.options))), 'data-role="settings"')


def test_names_are_escaped(viewer: Client) -> None:
    name = "</script><script>alert(1)</script>"
    page = viewer.get(address(measured(name=name), measured(options={"seed": name})))
    assertNotContains(page, "<script>alert")
    assertContains(page, "&lt;script&gt;alert(1)")


def test_its_links_keep_the_view(viewer: Client) -> None:
    runs = [measured() for _ in range(3)]
    page = viewer.get(address(*runs, x="time", scale="linear", baseline=runs[1].pk)).content.decode()
    whole = f"runs={','.join(str(run.pk) for run in runs)}"
    kept = f"{whole}&amp;baseline={runs[1].pk}&amp;x=time&amp;scale=linear"
    assert f'href="/compare/?{kept}&amp;values=relative"' in page
    assert f'href="/compare/?{kept}&amp;sort=difference"' in page
    assert f'href="/compare/?{whole}&amp;baseline={runs[1].pk}&amp;scale=linear"' in page
    assert f'href="/compare/?runs={runs[0].pk},{runs[2].pk}&amp;x=time&amp;scale=linear"' in page
    for chosen in ("x-time", "scale-linear", "values-absolute", "sort-total"):
        current = page.partition(f'id="{chosen}"')[2].partition(">")[0]
        assert 'aria-current="true"' in current


def test_it_ignores_unknown_views(viewer: Client) -> None:
    runs = measured(), measured()
    page = viewer.get(address(*runs, x="<script>", scale="cubic", sort="\0", values=""))
    assert page.context["view"] == View(tuple(run.pk for run in runs), runs[0].pk)


def test_it_lists_unmatched_tasks_and_incomparable_runs(viewer: Client) -> None:
    one, other = measured(), measured(network=make_network("convnet"))
    other.tasks.filter(index=1).update(name="fused_conv2d", workload_hash="c")
    page = viewer.get(address(one, other))
    assertContains(page, f"Different networks: mlp batch=1 (run {one.pk}), convnet (run {other.pk}).")
    assert [lone["name"] for lone in page.context["comparison"]["unmatched"]] == ["fused_matmul1", "fused_conv2d"]
    assertContains(page, "In one run only")
    assertContains(page, "not comparable</span>")
    assertNotContains(page, 'data-role="unmatched" hidden')


def test_it_orders_tasks_by_their_difference(viewer: Client) -> None:
    fast, slow = measured(((0, 9e-3), (1, 3e-3))), measured(((0, 9e-3), (1, 2e-3)))
    for sort, first in (("total", "fused_matmul0"), ("difference", "fused_matmul1")):
        page = viewer.get(address(fast, slow, sort=sort))
        assert page.context["tasks"][0][1]["name"] == first


def test_a_task_has_the_number_that_it_has_in_the_baseline(viewer: Client) -> None:
    one, other, third = measured(), measured(), measured()
    # Numbered the other way round, and one task of the first run is another one.
    for index in (7, 0, 1):
        other.tasks.filter(index={7: 0, 0: 1, 1: 7}[index]).update(index=index)
    one.tasks.filter(index=0).update(name="fused_conv2d", workload_hash="c")
    for run, compared in ((one, other), (other, one)):
        page = viewer.get(address(run, compared))
        cells = next(row for row in page.context["tasks"] if row[1]["name"] == "fused_matmul1")[3]
        assert [cell["task"] for _, cell, _ in cells] == [1, 0] if run == one else [0, 1]
        assertContains(
            page, f'<small class="muted" title="In this run it is task {cells[1][1]["task"]}, fused_matmul1">'
        )
    page = viewer.get(address(one, other, third))
    assert [row[0] for row in page.context["tasks"]] == ["1", f"1 of #{other.pk}"]
    assert [bar["x"] for bar in drawn(one, other, third)["tasks"]["data"]] == [
        ["1 fused_matmul1"],
        ["1 fused_matmul1", f"1 of #{other.pk} fused_matmul0"],
        ["1 fused_matmul1", f"1 of #{other.pk} fused_matmul0"],
    ]


@pytest.mark.parametrize("text", ["", "{0}", "{0},{0}", "{0},99999", "{0},x", "1,2,3,4,5,6,7,8,9", "<script>alert(1)"])
def test_it_reports_an_invalid_choice_of_runs(viewer: Client, text: str) -> None:
    run = measured()
    page = viewer.get("/compare/", {"runs": text.format(run.pk)})
    assertContains(page, 'data-role="refused"', status_code=400)
    assertNotContains(page, "<script>alert", status_code=400)
    answer = viewer.get("/api/v1/compare", {"runs": text.format(run.pk)})
    assert answer.status_code == 422
    assert list(answer.json()["error"]["fields"]) == ["runs"]


def test_it_offers_to_compare_the_valid_runs_of_a_choice(viewer: Client) -> None:
    runs = measured(), measured()
    url = address(*runs)
    gone = viewer.get(f"{url},99999")
    assertContains(gone, "There is no run 99999", status_code=400)
    assertContains(gone, f'href="{url}"', status_code=400)


@pytest.mark.parametrize("baseline", ["99999", "x", "-1", "9" * 40, "\0"])
def test_it_refuses_a_baseline_that_is_not_among_the_runs(viewer: Client, baseline: str) -> None:
    runs = measured(), measured()
    page = viewer.get("/compare/", {"runs": f"{runs[0].pk},{runs[1].pk}", "baseline": baseline})
    assertContains(page, f'href="{address(*runs)}"', status_code=400)
    answer = viewer.get("/api/v1/compare", {"runs": f"{runs[0].pk},{runs[1].pk}", "baseline": baseline})
    assert list(answer.json()["error"]["fields"]) == ["baseline"]


def test_it_compares_tasks_without_a_valid_trial(viewer: Client) -> None:
    runs = measured(((0, None), (1, None))), measured(), make_run()
    page = viewer.get(address(*runs, values="relative"))
    assertContains(page, "has no valid trial: all 2 have failed")
    assertContains(page, "has no trials yet")
    assertContains(page, "all 1 failed")
    assert page.context["figures"]["empty"]["estimate"] == "The baseline has no estimate: choose another baseline."


def test_it_says_why_there_is_no_estimate(viewer: Client) -> None:
    runs = [measured([(0, 1e-3)]) for _ in range(2)]

    def said() -> str:
        text: str = viewer.get(f"/compare/?runs={runs[0].pk},{runs[1].pk}").context["figures"]["empty"]["estimate"]
        return text

    assert said() == "Known once every task of a run has a valid trial."
    runs[0].tasks.update(weight=None)
    assert said().endswith("The weights of some runs’ tasks aren’t recorded.")
    runs[1].tasks.update(weight=None)
    assert said() == "Not known: the weights of the tasks aren’t recorded."


def test_the_form_of_the_list_redirects_to_the_canonical_address(viewer: Client) -> None:
    runs = measured(), measured()
    answer = viewer.get(f"/compare/?runs={runs[0].pk}&runs={runs[1].pk}&x=time")
    assertRedirects(answer, address(*runs, x="time"))
    page = viewer.get("/runs/")
    assertContains(page, 'form="compare" id="select-', count=2)
    assertContains(page, 'action="/compare/" id="compare"')


def test_the_api_returns_the_figures_of_the_page(viewer: Client) -> None:
    runs = measured(), measured(SLOW)
    found = viewer.get("/api/v1/compare", {"runs": f"{runs[0].pk},{runs[1].pk}", "baseline": f"{runs[1].pk}"}).json()
    page = viewer.get(address(*runs, baseline=runs[1].pk)).context["comparison"]
    assert found == page
    assert found["baseline"] == runs[1].pk
    assert [run["ratio"] for run in found["runs"]] == [pytest.approx(7 / 9.5), 1.0]


def test_a_curve_is_relative_to_the_baseline_at_the_same_point() -> None:
    fast, slow = measured(((0, 4e-3), (1, 3e-3), (0, 2e-3))), measured(((0, 2e-3), (1, 4e-3), (1, 2e-3)))
    Run.objects.filter(pk=slow.pk).update(elapsed_s=9.0)
    slow.trials.filter(number=3).update(at_s=5.0)
    by_trials = drawn(fast, slow, values="relative")["estimate"]["data"]
    assert by_trials[0]["y"] == [1.0, 1.0]
    assert by_trials[1]["x"] == [2, 3]
    assert by_trials[1]["y"] == [pytest.approx(10 / 10), pytest.approx(6 / 8)]
    by_time = drawn(fast, slow, values="relative", x="time")["estimate"]["data"]
    assert by_time[1]["customdata"] == [2.0, 3.0, 5.0, 9.0]
    assert by_time[1]["y"] == [pytest.approx(value) for value in (10 / 10, 10 / 8, 6 / 8, 6 / 8)]


def test_bars_are_relative_to_the_baseline() -> None:
    fast, slow = measured(), measured(SLOW)
    absolute = drawn(fast, slow, per="execution")["tasks"]
    assert absolute["layout"]["yaxis"]["type"] == "linear", "a bar's length is a latency"
    assert [trace["y"] for trace in absolute["data"]] == [[3e-3, 1e-3], [4e-3, 1.5e-3]]
    weighted = drawn(fast, slow)["tasks"]["data"]
    assert [trace["y"] for trace in weighted] == [[6e-3, 1e-3], [8e-3, 1.5e-3]]
    relative = drawn(fast, slow, values="relative")["tasks"]
    assert relative["layout"]["yaxis"]["type"] == "linear"
    assert relative["data"][1]["y"] == [pytest.approx(100 / 3), pytest.approx(50.0)]


def test_what_is_as_good_as_the_baseline_within_noise_is_a_band() -> None:
    fast, slow, third = measured(), measured(SLOW), measured()
    assert "band" not in drawn(fast, slow)["estimate"]["layout"]["meta"]
    for run, noise in ((fast, 0.03), (slow, 0.04)):
        Run.objects.filter(pk=run.pk).update(noise=noise)
    for view in ({}, {"values": "relative"}):
        band = drawn(slow, fast, third, baseline=fast.pk, **view)["estimate"]["layout"]["meta"]["band"]
        assert band == {"trace": 1, "noise": pytest.approx(0.05)}


def test_bars_have_the_noise_of_their_run_or_of_the_difference() -> None:
    fast, slow, third = measured(), measured(SLOW), measured()
    for run, noise in ((fast, 0.03), (slow, 0.04)):
        Run.objects.filter(pk=run.pk).update(noise=noise)

    def whiskers(**view: Any) -> list[Any]:
        bars = [trace.get("error_y") for trace in drawn(fast, slow, third, **view)["tasks"]["data"]]
        return [one and (one["type"], one["value"]) for one in bars]

    assert whiskers() == [("percent", pytest.approx(3.0)), ("percent", pytest.approx(4.0)), None]
    assert whiskers(values="relative") == [None, ("constant", pytest.approx(5.0)), None]


def test_a_runs_trials_are_stacked_by_task() -> None:
    fast, slow = measured(FAST), measured(SLOW)
    traces = drawn(fast, slow)["allocation"]["data"]
    assert [trace["name"] for trace in traces] == ["1 fused_matmul1", "0 fused_matmul0"]
    assert [trace["x"] for trace in traces] == [[f"#{fast.pk}", f"#{slow.pk}"]] * 2
    assert [trace["y"] for trace in traces] == [[pytest.approx(1 / 3)] * 2, [pytest.approx(2 / 3)] * 2]
    assert [trace["customdata"] for trace in traces] == [[1, 1], [2, 2]]


def test_trials_of_tasks_that_one_run_has_alone_complete_its_bar() -> None:
    one, other = measured(), measured()
    other.tasks.filter(index=1).update(name="fused_conv2d", workload_hash="c")
    traces = drawn(one, other, make_run())["allocation"]["data"]
    assert [(trace["name"], trace["customdata"]) for trace in traces] == [
        ("0 fused_matmul0", [2, 2]),
        ("other tasks", [1, 1]),
    ]


def test_latencies_are_weighted_and_summed_unless_asked_for_one_execution(viewer: Client) -> None:
    runs = measured(), measured(SLOW)
    page = viewer.get(address(*runs))
    assertContains(page, "8.000\u00a0ms</a>")
    assertContains(page, "of all 2 tasks that all runs have measured")
    total = page.content.decode().partition('data-role="common-total"')[2].partition("</tr>")[0]
    assert "7.000\u00a0ms" in total
    assert "9.500\u00a0ms" in total
    assert "+35.7\u00a0%" in total
    single = viewer.get(address(*runs, per="execution"))
    assertContains(single, "4.000\u00a0ms</a>")
    assertNotContains(single, 'data-role="common-total"')


def test_the_run_whose_difference_is_taken_apart_can_be_chosen(viewer: Client) -> None:
    runs = [measured(), measured(SLOW), measured(((0, 1e-3), (1, 5e-3)))]
    keys = [run.pk for run in runs]
    page = viewer.get(address(*runs))
    assertContains(
        page, f'id="other-{keys[1]}" href="/compare/?runs={keys[0]},{keys[1]},{keys[2]}" aria-current="true"'
    )
    other = f"/compare/?runs={keys[0]},{keys[1]},{keys[2]}&amp;other={keys[2]}"
    assertContains(page, f'id="other-{keys[2]}" href="{other}"')
    assert viewer.get(address(*runs, other=keys[2])).context["view"].against == keys[2]
    for wrong in (keys[0], 99999, "x"):
        assert viewer.get(address(*runs, other=wrong)).context["view"].against == keys[1]
    without = viewer.get(address(*runs[1:], other=keys[2]))
    assertNotContains(without, 'id="other-')


def test_the_speed_starts_at_zero_trials() -> None:
    begun, waiting = drawn(measured(FAST), make_run())["speed"]["data"]
    assert (begun["x"], begun["customdata"], begun["y"]) == ([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0], [1.0] * 4)
    assert waiting["x"] == waiting["y"] == []


@pytest.mark.parametrize(
    ("ratio", "words", "kind"),
    [(None, "–", ""), (1.0004, "0.0\u00a0%", ""), (0.875, "−12.5\u00a0%", "good"), (2.0, "+100.0\u00a0%", "bad")],
)
def test_a_difference_has_a_sign_and_a_color(ratio: float | None, words: str, kind: str) -> None:
    assert (units.difference(ratio), tone(ratio)) == (words, kind)
    assert units.signed_latency(-1e-3) == "−1.000\u00a0ms"
    assert units.signed_latency(0.0) == "0.000\u00a0ns"


def test_eight_runs_differ_by_more_than_color() -> None:
    runs = [measured() for _ in range(8)]
    found = drawn(*runs)
    assert {(trace["meta"]["task"], trace["meta"]["dash"]) for trace in found["estimate"]["data"]} == {
        (place, "solid" if place < 4 else "dash") for place in range(8)
    }
    assert [trace["marker"]["pattern"]["shape"] for trace in found["tasks"]["data"]] == [""] * 4 + ["/"] * 4


def test_it_says_which_runs_are_ongoing(viewer: Client) -> None:
    going = measured_run()
    page = viewer.get(address(going, measured(device="another"))).content.decode()
    assert f'data-run="{going.pk}" data-series="0" data-place="0" data-status="running" data-last="3"' in page
