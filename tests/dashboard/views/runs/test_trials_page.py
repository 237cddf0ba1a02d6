"""The trials page: filters, order, pages and trial details."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from dashboard.views.runs import trials
from tests.world import make_run, make_user, measured_by, measured_run
from tuning.models import Run
from tuning.reads.exploring import TrialOrder
from tuning.work.synthetic import seed_run

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]  # Each sorts by itself.

LATENCIES = [(0, 5e-3), (1, None), (0, 3e-3), (1, 4e-6), (0, 6e-3), (0, None)]


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make_user("viewer"))
    return client


def numbers(page: Any) -> list[int]:
    return [int(number) for number in re.findall(r'<tr data-trial="(\d+)"', page.content.decode())]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"task": "1"}, [2, 4]),
        ({"only": "failed", "order": "-number"}, [6, 2]),
        ({"only": "improved"}, [1, 3, 4]),
        ({"only": "valid", "order": "-latency_s"}, [5, 1, 3, 4]),
        ({"order": "task"}, [1, 3, 5, 6, 2, 4]),
        ({"order": "-at_s", "task": "0"}, [6, 5, 3, 1]),
        ({"order": "at_s", "from": "4"}, [4, 5, 6]),
        ({"min": "3 ms", "max": "0.005"}, [1, 3]),
        ({"max": "5us"}, [4]),
        ({"max": "5 µs"}, [4]),
        ({"min": "3MS", "order": "latency_s"}, [3, 1, 5]),
        ({"from": "5"}, [5, 6]),
        ({"from": "", "task": "", "only": "", "min": "", "max": ""}, [1, 2, 3, 4, 5, 6]),
        ({"min": "9"}, []),
    ],
)
def test_it_shows_the_selected_trials(viewer: Client, query: dict[str, str], found: list[int]) -> None:
    assert numbers(viewer.get(f"/runs/{measured_run(LATENCIES).pk}/trials/", query)) == found


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ({"task": "7"}, "Task"),
        ({"task": "x"}, "Task"),
        ({"only": "lucky"}, "Outcome"),
        ({"order": "nth"}, "Order"),
        ({"min": "3 parsecs"}, "Latency from"),
        ({"min": "nan"}, "Latency from"),
        ({"min": "2", "max": "1"}, "Latency to"),
        ({"only": "failed", "min": "1"}, "Outcome"),
        ({"from": "3", "order": "-number"}, "Jump to trial"),
        ({"from": "-3"}, "Jump to trial"),
        ({"cursor": "nonsense"}, "Page"),
    ],
)
def test_it_reports_invalid_parameters(viewer: Client, query: dict[str, str], label: str) -> None:
    page = viewer.get(f"/runs/{measured_run(LATENCIES).pk}/trials/", query)
    assertContains(page, f"<strong>{label}</strong>: ", 1, status_code=422)
    assert numbers(page) == []
    assertNotContains(page, "chart-scatter", status_code=422)


def test_it_names_all_that_is_invalid_at_once_by_its_label(viewer: Client) -> None:
    query = {"min": "fast", "max": "slow", "from": "first", "only": "lucky"}
    page = viewer.get(f"/runs/{measured_run(LATENCIES).pk}/trials/", query)
    named = re.findall(r'data-role="wrong">.*?<strong>(.*?)</strong>', page.content.decode(), re.DOTALL)
    assert sorted(named) == ["Jump to trial", "Latency from", "Latency to", "Outcome"]
    fields = re.findall(r'<label>([^<]*) <input[^>]*aria-invalid="true"', page.content.decode())
    assert fields == ["Latency from", "Latency to", "Jump to trial"]


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"task": "1"},
        {"task": "01"},
        {"only": "failed"},
        {"only": "failed", "task": "0"},
        {"only": "improved"},
        {"only": "valid", "order": "-latency_s"},
        {"only": "noisy"},
        {"min": "3 ms", "max": "0.005"},
        {"max": "5us", "only": "improved"},
        {"machine": "lab-2"},
        {"machine": "lab-2", "only": "failed"},
        {"min": "9"},
    ],
    ids=str,
)
def test_its_chart_has_the_trials_of_its_table(viewer: Client, query: dict[str, str]) -> None:
    run = measured_run(LATENCIES)
    for number in (1, 2, 3):
        measured_by(run, f"lab-{number}", number=number)
    run.trials.filter(number=3).update(noisy=True)
    page = viewer.get(f"/runs/{run.pk}/trials/", query)
    wanted = {name: value for name, value in plotted(page)["wanted"].items() if value not in (None, "")}
    chart = viewer.get(f"/api/v1/runs/{run.pk}/scatter", wanted).json()
    assert chart["number"] == sorted(numbers(page))
    assert (chart["total"], chart["exact"]) == (len(numbers(page)), True)


@pytest.mark.parametrize("order", get_args(TrialOrder))
def test_it_goes_from_page_to_page(viewer: Client, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    monkeypatch.setattr(trials, "PAGE", 4)
    path = f"/runs/{measured_run([(n % 2, (n % 3 + 1) * 1e-3) for n in range(10)]).pk}/trials/"
    page, shown = viewer.get(path, {"order": order}), []
    while True:
        shown += numbers(page)
        following = re.search(r'href="([^"]+)" data-role="next-page"', page.content.decode())
        if following is None:
            break
        page = viewer.get(path + following[1].replace("&amp;", "&"))
    columns = {"latency_s": lambda number: (number - 1) % 3, "task": lambda number: (number - 1) % 2}
    column = columns.get(order.lstrip("-"), lambda number: number)
    assert sorted(shown) == list(range(1, 11))
    assert list(map(column, shown)) == sorted(map(column, shown), reverse=order.startswith("-"))
    assertContains(page, 'data-role="first-page"')


def test_it_shows_a_trial_in_full(viewer: Client) -> None:
    path = f"/runs/{(run := measured_run(LATENCIES)).pk}/trials/"
    valid = viewer.get(path, {"trial": 1})
    assertContains(valid, "5.000\u00a0ms")
    assertContains(valid, "66.7\u00a0%")
    assertContains(valid, f"/runs/{run.pk}/tasks/0/?record=1#record")
    failed = viewer.get(path, {"trial": 2})
    assertContains(failed, "CUDA error: too many resources")
    assertContains(failed, f"/runs/{run.pk}/tasks/1/?record=2#record")
    assertNotContains(failed, "GFLOPS")


@pytest.mark.parametrize("number", ["7", "0", "x", "9" * 10])
def test_an_unknown_trial_is_not_found(viewer: Client, number: str) -> None:
    assert viewer.get(f"/runs/{measured_run(LATENCIES).pk}/trials/", {"trial": number}).status_code == 404


def test_input_is_escaped(viewer: Client) -> None:
    page = viewer.get(f"/runs/{measured_run(LATENCIES).pk}/trials/", {"min": '"><script>1</script>'})
    assertNotContains(page, "<script>1", status_code=422)


def test_it_marks_a_synthetic_run_and_offers_no_record(viewer: Client) -> None:
    page = viewer.get(f"/runs/{seed_run(20, 2).pk}/trials/", {"trial": 1})
    assertContains(page, '<span class="tag">synthetic</span>')
    assertNotContains(page, "?record=")


def test_a_run_without_trials_says_so(viewer: Client) -> None:
    assertContains(viewer.get(f"/runs/{make_run().pk}/trials/"), "No trial yet.")


def test_it_needs_few_queries(viewer: Client, django_assert_max_num_queries: Any) -> None:
    run = measured_run([(n % 2, None if n % 5 == 0 else 1e-3) for n in range(60)])
    Run.objects.update(status="finished")
    with django_assert_max_num_queries(11):
        viewer.get(f"/runs/{run.pk}/trials/")


def plotted(page: Any) -> Any:
    """The data from which the page draws the scatter."""
    (text,) = re.findall(r'<script id="figure" type="application/json">(.*?)</script>', page.content.decode())
    return json.loads(text)


def test_the_scatter_has_a_trace_per_task(viewer: Client) -> None:
    run = measured_run(LATENCIES)
    shown = plotted(viewer.get(f"/runs/{run.pk}/trials/"))
    assert [trace["meta"] for trace in shown["figure"]["data"]] == [
        {"task": 0},
        {"task": 1},
        {"role": "failed"},
        {"role": "noisy"},
        {"role": "picked"},
    ]
    assert shown["foremost"] is None
    of_one = plotted(viewer.get(f"/runs/{run.pk}/trials/", {"task": "1"}))
    assert [trace["meta"].get("task") for trace in of_one["figure"]["data"]] == [1, None, None, None]


def test_its_links_keep_the_view_of_the_scatter(viewer: Client) -> None:
    page = viewer.get(f"/runs/{measured_run(LATENCIES).pk}/trials/", {"zoom": "2,4,,", "x": "time"})
    assertContains(page, 'href="?zoom=2%2C4%2C%2C&amp;x=time&amp;order=task"')
    assertContains(page, "?zoom=2%2C4%2C%2C&amp;x=time&amp;trial=3#trial")


def test_it_says_which_of_several_machines_measured(viewer: Client) -> None:
    run = measured_run(LATENCIES[:3])
    measured_by(run, "lab-1", number=1)
    measured_by(run, "lab-2", number=2)
    page = viewer.get(f"/runs/{run.pk}/trials/?order=-number&trial=3")
    shown = re.findall(r'data-label="Machine">([^<]*)<', page.content.decode())
    assert shown == ["not recorded", "lab-2", "lab-1"]
    assertContains(page, '<dt>Measured by</dt><dd class="mono">not recorded</dd>')
    page = viewer.get(f"/runs/{run.pk}/trials/?machine=lab-2")
    assert numbers(page) == [2]
    assertContains(page, "<option selected>lab-2</option>")
    page = viewer.get(f"/runs/{run.pk}/trials/?machine=lab-3%00")
    assert page.status_code == 422
    assertContains(page, "<strong>Machine</strong>: No trial", status_code=422)


def test_a_run_of_one_machine_has_no_column_for_it(viewer: Client) -> None:
    run = measured_run(LATENCIES[:3])
    measured_by(run, "lab-1", number=1)
    page = viewer.get(f"/runs/{run.pk}/trials/?trial=1")
    assertNotContains(page, 'data-label="Machine"')
    assertNotContains(page, 'name="machine"')
    assertContains(page, '<dt>Measured by</dt><dd class="mono">lab-1</dd>')
    assertNotContains(viewer.get(f"/runs/{run.pk}/trials/?trial=2"), "Measured by")


def test_it_says_which_trials_are_noisy(viewer: Client) -> None:
    run = measured_run(LATENCIES)
    run.trials.filter(number=3).update(noisy=True)
    assertContains(viewer.get(f"/runs/{run.pk}/trials/"), ">noisy</span>", 1)
    assert numbers(viewer.get(f"/runs/{run.pk}/trials/?only=noisy")) == [3]
    assertContains(viewer.get(f"/runs/{run.pk}/trials/?trial=3&only=failed"), ">noisy</span>", 1)
    assertNotContains(viewer.get(f"/runs/{run.pk}/trials/?trial=1&only=failed"), ">noisy</span>")
