"""Runs and their trials in the API: contents, filters, order and pages."""

from __future__ import annotations

import gzip
import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from django.db.models import F
from django.test import Client
from pydantic import TypeAdapter

from tests.world import (
    make_run,
    make_user,
    measured_by,
    measured_run,
    record_trials,
    share_first_project,
    write_record_files,
)
from tuning.engines.wire.showing import Decision
from tuning.models import Record, Run, TrialError
from tuning.reads import network_list, showing
from tuning.reads.curves import CurvesDict
from tuning.reads.exploring import TrialOrder
from tuning.reads.run_list import RunOrder
from tuning.reads.showing import Applying, Failed, Generated, HotLoop, Kernel, Kernels, Listing, Occupancy, Shown

pytestmark = pytest.mark.django_db
DECISION = Decision("sample_perfect_tile", "i1", "matmul", 128, [4, 32], "4 × 32", [])


@pytest.fixture
def client(client: Client) -> Client:
    client.force_login(make_user("operator"))
    return client


@pytest.fixture
def known_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve targets without TVM, and enqueue nothing."""
    resolved = {"target": {"kind": "llvm", "mcpu": "znver4"}, "device": "cpu", "label": "znver4"}
    monkeypatch.setattr("tuning.host.targets.resolve", lambda _: resolved)
    monkeypatch.setattr("tuning.queue.jobs.enqueue", lambda _: None)


def get(client: Client, path: str, **query: Any) -> Any:
    response = client.get(f"/api/v1/{path}", query)
    assert response.status_code == 200, response.content
    return response.json()


def post(client: Client, path: str, body: Any = None) -> Any:
    return client.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json")


def every_page(client: Client, **query: Any) -> list[list[int]]:
    pages, cursor = [], None
    while True:
        answer = get(client, "runs", **query, **({"cursor": cursor} if cursor else {}))
        pages.append([run["id"] for run in answer["items"]])
        cursor = answer["next"]
        if cursor is None:
            return pages


def test_it_returns_a_run_with_its_tasks(client: Client) -> None:
    run = measured_run()
    shown = get(client, f"runs/{run.pk}")
    assert shown == json.loads(json.dumps(run.to_full_dict()))
    assert [task["best_latency_s"] for task in shown["tasks"]] == [1e-3, 3e-3]


def test_it_lists_runs_without_tasks_newest_first(client: Client) -> None:
    old, new = make_run(), make_run()
    items = get(client, "runs")["items"]
    assert [run["id"] for run in items] == [new.pk, old.pk]
    assert all("tasks" not in run for run in items)


def test_it_shows_alerts_in_the_list(client: Client) -> None:
    measured_run(latencies=[(0, None)] * 16)
    (shown,) = get(client, "runs")["items"]
    assert [alert["kind"] for alert in shown["alerts"]] == ["all_failed"]


def test_the_list_needs_few_queries(client: Client, django_assert_max_num_queries: Any) -> None:
    for number in range(5):
        measured_run(device=f"device-{number}").tags.create(name="good")
        make_run(device=f"device-{number}")
    get(client, "runs")  # Once a minute, a request also records that the user was seen.
    with django_assert_max_num_queries(14):
        items = get(client, "runs")["items"]
    assert [run["place"] for run in items] == [1, None] * 5


@pytest.mark.parametrize("order", get_args(RunOrder))
def test_pages_neither_skip_nor_repeat_runs_in_any_order(client: Client, order: str) -> None:
    for number in range(7):
        estimate = None if number % 3 == 1 else number % 2 / 3
        make_run(
            name=f"run {number % 3}",
            status=Run.Status.values[3 + number % 3],
            trials_done=number % 2,
            trials_failed=number % 2,
            estimated_latency_s=estimate,
        )
    descending = order.startswith("-")
    column = F(order.lstrip("-"))
    ordered = column.desc(nulls_last=True) if descending else column.asc(nulls_last=True)
    expected = list(Run.objects.order_by(ordered, "-pk" if descending else "pk").values_list("pk", flat=True))
    pages = every_page(client, order=order, limit=2)
    assert [len(page) for page in pages] == [2, 2, 2, 1]
    assert list(chain(*pages)) == expected


def test_a_cursor_keeps_its_place_while_runs_are_launched(client: Client) -> None:
    old = [make_run().pk for _ in range(4)]
    first = get(client, "runs", limit=2)
    make_run()
    second = get(client, "runs", limit=2, cursor=first["next"])
    assert [run["id"] for run in first["items"] + second["items"]] == old[::-1]
    assert second["next"] is None


def test_it_refuses_a_run_cursor_of_another_order(client: Client) -> None:
    make_run(), make_run()
    cursor = get(client, "runs", limit=1)["next"]
    response = client.get("/api/v1/runs", {"cursor": cursor, "order": "name"})
    assert response.status_code == 422
    assert "-created_at" in response.json()["error"]["fields"]["cursor"]


@pytest.mark.parametrize(
    ("order", "value"),
    [("-created_at", "0001-01-01T00:00:00+23:59"), ("created_at", "9999-12-31T23:59:59-23:59"), ("name", "a\0b")],
)
def test_it_refuses_a_cursor_with_impossible_values(client: Client, order: str, value: str) -> None:
    cursor = urlsafe_b64encode(json.dumps([order, value, 1]).encode()).decode()
    response = client.get("/api/v1/runs", {"order": order, "cursor": cursor})
    assert response.status_code == 422
    assert list(response.json()["error"]["fields"]) == ["cursor"]


@pytest.mark.parametrize("field", ["q", "engine"])
def test_it_refuses_a_nul(client: Client, field: str) -> None:
    assert list(client.get("/api/v1/runs", {field: "\0"}).json()["error"]["fields"]) == [field]


@pytest.mark.parametrize("cursor", ["", "x", "é", "bm9uc2Vuc2U", "W10", "%00", "WyItY3JlYXRlZF9hdCIsMSwyXQ"])
def test_it_refuses_an_invalid_cursor(client: Client, cursor: str) -> None:
    response = client.get("/api/v1/runs", {"cursor": cursor})
    assert response.status_code == 422
    assert response.json()["error"]["fields"] == {"cursor": "Not a valid cursor."}


def test_it_filters_by_status_engine_and_words(client: Client) -> None:
    queued, running = make_run(name="big resnet"), measured_run(name="small mlp")
    other = make_run(name="other", engine="autotvm")

    def found(**query: Any) -> set[int]:
        return {run["id"] for run in get(client, "runs", **query)["items"]}

    assert found(status="running") == {running.pk}
    assert found(status=["queued", "running"]) == {queued.pk, running.pk, other.pk}
    assert found(engine="autotvm") == {other.pk}
    assert found(q="RESNET big") == {queued.pk}
    assert found(q="mlp") == {queued.pk, running.pk, other.pk}
    assert found(q="resnet small") == set()


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("runs", {"status": "sleeping"}, "status"),
        ("runs", {"order": "secret"}, "order"),
        ("runs", {"show": "everything"}, "show"),
        ("runs", {"since": "yesterday"}, "since"),
        ("runs", {"until": "2026-02-30"}, "until"),
        ("runs", {"since": "2026-02-02", "until": "2026-02-01"}, "until"),
        ("runs", {"tag": "a\0b"}, "tag"),
        ("runs", {"network": "a\0b"}, "network"),
        ("runs", {"pinned": "perhaps"}, "pinned"),
        ("runs", {"limit": "0"}, "limit"),
        ("runs", {"limit": "201"}, "limit"),
        ("runs", {"limit": "many"}, "limit"),
        ("runs", {"q": "a\0b"}, "q"),
        ("runs", {"q": "x" * 201}, "q"),
        ("runs", {"statsu": "running"}, "statsu"),
        ("runs/{run}/trials", {"after": "-1"}, "after"),
        ("runs/{run}/trials", {"after": "9" * 30}, "after"),
        ("runs/{run}/trials", {"limit": "10001"}, "limit"),
        ("runs/{run}/trials", {"task": "2"}, "task"),
        ("runs/{run}/trials", {"failed": "perhaps"}, "failed"),
        ("runs/{run}/trials", {"order": "nth"}, "order"),
        ("runs/{run}/trials", {"min": "-1"}, "min"),
        ("runs/{run}/trials", {"max": "inf"}, "max"),
        ("runs/{run}/trials", {"min": "2", "max": "1"}, "max"),
        ("runs/{run}/trials", {"failed": "true", "order": "latency_s"}, "failed"),
        ("runs/{run}/trials", {"cursor": "nonsense"}, "cursor"),
        ("runs/{run}/trials", {"since": "3"}, "since"),
        ("runs/{run}/scatter", {"from": "0"}, "from"),
        ("runs/{run}/scatter", {"from": "3", "to": "2"}, "to"),
        ("runs/{run}/scatter", {"min": "2", "max": "1"}, "max"),
        ("runs/{run}/scatter", {"max": "nan"}, "max"),
        ("runs/{run}/scatter", {"task": "2"}, "task"),
        ("runs/{run}/scatter", {"points": "20001"}, "points"),
        ("runs/{run}/scatter", {"points": "few"}, "points"),
        ("runs/{run}/scatter", {"first": "1"}, "first"),
        ("runs/{run}/curves", {"points": "9"}, "points"),
        ("runs/{run}/curves", {"points": "20001"}, "points"),
        ("runs/{run}/console", {"after": "-1"}, "after"),
    ],
)
def test_it_names_a_bad_parameter(client: Client, path: str, query: dict[str, str], field: str) -> None:
    response = client.get("/api/v1/" + path.format(run=measured_run().pk), query)
    assert response.status_code == 422
    error = response.json()["error"]
    assert error["code"] == "invalid"
    assert list(error["fields"]) == [field]


def test_it_returns_trials_as_columns(client: Client) -> None:
    run = measured_run(latencies=[(0, 2e-3), (1, None), (0, 1e-3)])
    columns = get(client, f"runs/{run.pk}/trials")
    assert columns == {
        "number": [1, 2, 3],
        "task": [0, 1, 0],
        "latency_s": [2e-3, None, 1e-3],
        "error": [None, "run", None],
        "short": [False, False, False],
        "at_s": [1.0, 2.0, 3.0],
        "nth": [1, 1, 2],
        "improved": [True, False, True],
        "noisy": [False, False, False],
        "machine": [None, None, None],
        "last": 3,
        "next": None,
    }


@pytest.mark.parametrize("order", get_args(TrialOrder))
def test_it_pages_trials_in_any_order(client: Client, order: str) -> None:
    run = measured_run(latencies=[(number % 2, (number % 3 + 1) * 1e-3) for number in range(10)])
    path, name = f"runs/{run.pk}/trials", order.lstrip("-")
    whole = get(client, path, order=order, max=2e-3)
    shown: list[int] = []
    page = get(client, path, order=order, max=2e-3, limit=3)
    while True:
        shown += page["number"]
        if page["next"] is None:
            break
        page = get(client, path, order=order, max=2e-3, limit=3, cursor=page["next"])
    assert shown == whole["number"]
    assert len(shown) == 7
    assert whole[name] == sorted(whole[name], reverse=order.startswith("-"))


def test_it_returns_the_scatter_of_a_window(client: Client) -> None:
    run = measured_run(latencies=[(0, 2e-3), (1, None), (0, 1e-3), (1, 5e-3), (0, 4e-3)])
    path = f"runs/{run.pk}/scatter"
    columns = get(client, f"runs/{run.pk}/trials")
    same = {name: columns[name] for name in ("number", "task", "latency_s", "error", "at_s", "last")}
    counted = {"run": run.pk, "shown": 5, "total": 5, "exact": True, "step": 1}
    assert get(client, path) == {**same, **counted, "machine": [], "noisy": []}
    assert get(client, path, **{"from": 2, "to": 4})["number"] == [2, 3, 4]
    assert get(client, path, max=2e-3)["number"] == [1, 2, 3]
    assert get(client, path, task=[1])["number"] == [2, 4]
    assert get(client, path, task=[0, 1], min=3e-3)["number"] == [2, 4, 5]


def test_it_tells_which_machine_measured(client: Client) -> None:
    run = measured_run(latencies=[(0, 2e-3), (1, None), (0, 1e-3)])
    measured_by(run, "lab-1", number=1)
    measured_by(run, "lab-2", number=2)
    path = f"runs/{run.pk}"
    assert get(client, f"{path}/trials")["machine"] == ["lab-1", "lab-2", None]
    assert get(client, f"{path}/scatter")["machine"] == ["lab-1", "lab-2", None]
    assert get(client, f"{path}/trials", machine="lab-2")["number"] == [2]
    refused = client.get(f"/api/v1/{path}/trials", {"machine": "lab-3"})
    assert refused.status_code == 422
    assert "lab-3" in refused.json()["error"]["fields"]["machine"]


def test_it_tells_noisy_trials(client: Client) -> None:
    run = measured_run(latencies=[(0, 2e-3), (1, None), (0, 1e-3)])
    run.trials.filter(number=3).update(noisy=True)
    Run.objects.update(trials_noisy=1)
    path = f"runs/{run.pk}"
    assert get(client, path)["trials_noisy"] == 1
    assert get(client, f"{path}/trials", noisy="true")["number"] == [3]
    assert get(client, f"{path}/trials", noisy="false")["number"] == [1, 2]
    assert get(client, f"{path}/scatter")["noisy"] == [False, False, True]
    refused = client.get(f"/api/v1/{path}/trials", {"noisy": "true", "failed": "true"})
    assert refused.json()["error"]["fields"] == {"noisy": "A failed trial is never noisy."}


def test_it_refuses_a_trial_cursor_of_another_order(client: Client) -> None:
    path = f"runs/{measured_run().pk}/trials"
    cursor = get(client, path, limit=1)["next"]
    refused = client.get(f"/api/v1/{path}", {"order": "latency_s", "cursor": cursor})
    assert refused.status_code == 422
    assert "order" in refused.json()["error"]["fields"]["cursor"]


def test_it_compresses_json_if_the_client_accepts_it(client: Client) -> None:
    run = measured_run()
    path = f"/api/v1/runs/{run.pk}/curves"
    plain, packed = client.get(path), client.get(path, headers={"accept-encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    csv = client.get(f"/api/v1/runs/{run.pk}/trials.csv", headers={"accept-encoding": "gzip"})
    assert "Content-Encoding" not in csv.headers


def test_it_returns_the_trials_after_a_number(client: Client) -> None:
    run = measured_run()
    path = f"runs/{run.pk}/trials"
    assert get(client, path, after=1, limit=1)["number"] == [2]
    assert get(client, path, after=2)["number"] == [3]
    nothing = get(client, path, after=3)
    assert (nothing["number"], nothing["last"]) == ([], 3)


def test_it_filters_and_reverses_trials(client: Client) -> None:
    run = measured_run(latencies=[(0, 2e-3), (1, None), (0, 1e-3), (0, None)])
    path = f"runs/{run.pk}/trials"
    assert get(client, path, task=0)["number"] == [1, 3, 4]
    assert get(client, path, failed="true")["number"] == [2, 4]
    assert get(client, path, failed="false")["number"] == [1, 3]
    assert get(client, path, order="-number", limit=2)["number"] == [4, 3]


def test_it_returns_curves(client: Client) -> None:
    run = measured_run()
    shown = get(client, f"runs/{run.pk}/curves", points=100)
    assert shown["last"] == 3
    assert [task["best"]["latency_s"] for task in shown["tasks"]] == [[2e-3, 1e-3], [3e-3]]
    assert shown["estimate"]["latency_s"] == pytest.approx([8e-3, 7e-3])
    assert TypeAdapter(CurvesDict).validate_python(shown, strict=True) == shown


@pytest.mark.parametrize("path", ["/api/v1/runs/{}/curves", "/runs/{}/figures/"])
def test_charts_are_sent_again_only_after_new_trials(client: Client, path: str) -> None:
    run = measured_run()
    path = path.format(run.pk)
    first = client.get(path)
    known = {"if-none-match": first.headers["ETag"]}
    again = client.get(path, headers=known)
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert first.headers["Cache-Control"] == again.headers["Cache-Control"] == "private, no-cache"
    assert client.get(path, {"points": 10}, headers=known).status_code == (200 if "curves" in path else 304)
    record_trials(run, [(0, 1e-4)])
    later = client.get(path, headers=known)
    assert (later.status_code, later.json()["last"]) == (200, 4)


def test_it_groups_errors(client: Client) -> None:
    run = measured_run(latencies=[(0, None), (1, None), (0, 1e-3)])
    (error,) = get(client, f"runs/{run.pk}/errors")["items"]
    stored = TrialError.objects.get()
    assert error == stored.to_dict()
    assert (error["count"], error["tasks"]) == (2, [0, 1])


def test_it_returns_a_task_with_tensorir_and_best_records(client: Client) -> None:
    run = measured_run()
    task = get(client, f"runs/{run.pk}/tasks/0")
    assert task["name"] == "fused_matmul0"
    assert task["tensorir"].startswith("@T.prim_func")
    assert [(record["trial"], record["latency_s"]) for record in task["records"]] == [(3, 1e-3), (1, 2e-3)]
    best = task["records"][0]
    assert best["text"] == Record.objects.get(trial=3).text
    assert best["gflops"] == pytest.approx(1.0)
    assert best["url"] == f"/api/v1/runs/{run.pk}/tasks/0/records/3"


def test_it_returns_the_schedule_of_a_record(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run = measured_run()
    path = get(client, f"runs/{run.pk}/tasks/0")["records"][0]["url"]
    states: list[showing.State] = [Applying("Loading TVM"), Shown("code", [DECISION], "def main(): ...", packs=True)]
    asked: list[list[int]] = []

    def show(records: Sequence[Record]) -> showing.State:
        asked.append([one.trial for one in records])
        return states.pop(0)

    monkeypatch.setattr(showing, "show", show)
    making = client.get(path)
    assert making.status_code == 202
    assert (making.json()["status"], making.json()["step"], making.json()["schedule"]) == (
        "making",
        "Loading TVM",
        None,
    )
    made = client.get(path)
    assert made.status_code == 200
    assert (made.json()["status"], made.json()["step"], made.json()["trial"]) == ("made", None, 3)
    assert made.json()["schedule"] == {
        "code": "code",
        "decisions": [msgspec.to_builtins(DECISION)],
        "tensorir": "def main(): ...",
        "packs": True,
    }
    assert asked == [[3, 3, 1]] * 2


def test_it_says_why_a_record_cannot_be_shown(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run = measured_run()
    monkeypatch.setattr(showing, "show", lambda _: Failed("TVM can't apply it."))
    record = get(client, f"runs/{run.pk}/tasks/0/records/1")
    assert (record["status"], record["error"], record["schedule"]) == ("failed", "TVM can't apply it.", None)


def test_it_returns_the_code_that_is_made_of_a_record(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/api/v1/runs/{measured_run().pk}/tasks/0/records/1/code"
    loop = HotLoop("main", 1, 2, 3, instructions=2, fma=1, arithmetic=0, bits=512, loads=1, stores=0, stack=0)
    states: list[showing.CodeState] = [
        Applying("Loading TVM"),
        Generated([Listing("asm", "text", loop)]),
        Failed("No."),
    ]
    monkeypatch.setattr(showing, "generate", lambda _: states.pop(0))
    making, made, failed = (client.get(path) for _ in range(3))
    assert (making.status_code, making.json()["status"], making.json()["step"]) == (202, "making", "Loading TVM")
    assert made.json()["listings"] == [{"kind": "asm", "text": "text", "hot_loop": msgspec.to_builtins(loop)}]
    assert (made.json()["kernels"], made.json()["missing"]) == (None, [])
    assert (failed.status_code, failed.json()["error"], failed.json()["listings"]) == (200, "No.", [])


def test_it_returns_what_kernels_need(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    occupancy = Occupancy(4, 16, 64, ["shared memory"])
    kernels = Kernels("ptxas 13.0.88", "sm_80", [Kernel("main_kernel", 64, 128, 80, 34816, 0, 0, 0, occupancy)])
    monkeypatch.setattr(showing, "generate", lambda _: Generated([Listing("ptx", ".entry")], kernels, ["No SASS."]))
    made = get(client, f"runs/{measured_run().pk}/tasks/0/records/1/code")
    assert made["listings"] == [{"kind": "ptx", "text": ".entry", "hot_loop": None}]
    assert made["kernels"] == msgspec.to_builtins(kernels)
    assert made["missing"] == ["No SASS."]


def test_other_engines_records_have_no_code(client: Client) -> None:
    run = measured_run(engine="autotvm")
    assert client.get(f"/api/v1/runs/{run.pk}/tasks/0/records/1/code").status_code == 409


@pytest.mark.parametrize("trial", ["2", "7", "9" * 40])
def test_it_returns_404_for_a_record_of_another_task(client: Client, trial: str) -> None:
    run = measured_run()
    assert client.get(f"/api/v1/runs/{run.pk}/tasks/0/records/{trial}").status_code == 404


def test_a_slow_trial_has_its_schedule_unless_the_record_file_is_gone(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    settings.VAR = tmp_path
    run = measured_run([(0, 1e-3)] * 8 + [(0, 2e-3), (0, None)])
    write_record_files(run)
    monkeypatch.setattr(showing, "show", lambda _: Shown("code", [DECISION], "def main(): ...", packs=False))
    slow, failed = (get(client, f"runs/{run.pk}/tasks/0/records/{trial}") for trial in (9, 10))
    assert (slow["latency_s"], slow["schedule"]["code"]) == (2e-3, "code")
    assert (failed["latency_s"], failed["gflops"], failed["status"]) == (None, None, "made")
    run.record_file.unlink()
    refused = client.get(f"/api/v1/runs/{run.pk}/tasks/0/records/9")
    assert refused.status_code == 409
    assert "isn’t here anymore" in refused.json()["error"]["message"]


def test_it_returns_the_console_from_an_offset(client: Client) -> None:
    run = make_run()
    run.work_dir.mkdir(parents=True, exist_ok=True)
    run.console_log.write_text("one\ntwo\n")
    assert get(client, f"runs/{run.pk}/console") == {"text": "one\ntwo\n", "start": 0, "end": 8}
    assert get(client, f"runs/{run.pk}/console", after=4) == {"text": "two\n", "start": 4, "end": 8}


@pytest.mark.parametrize(
    "tail", ["", "/trials", "/curves", "/scatter", "/errors", "/console", "/tasks/0", "/tasks/0/records/1"]
)
@pytest.mark.parametrize("number", ["7", "9" * 40])
def test_it_returns_404_for_an_unknown_run(client: Client, number: str, tail: str) -> None:
    response = client.get(f"/api/v1/runs/{number}{tail}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


def test_it_launches(client: Client, known_target: None) -> None:
    response = post(
        client, "runs", {"network": "mlp", "target": "this", "trials": 32, "trials_per_batch": 8, "seed": 1}
    )
    assert response.status_code == 201, response.content
    run = Run.objects.get()
    shown = response.json()
    assert (shown["id"], shown["status"], shown["created_by"]) == (run.pk, "queued", "a-operator")
    assert (run.trials_budget, run.options["trials_per_batch"], run.options["seed"]) == (32, 8, 1)
    assert shown["tasks"] == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"network": "nope"}, "network"),
        ({"network": None}, "network"),
        ({"network": 3}, "network"),
        ({"network_options": {"size": 3}}, "network_options.size"),
        ({"network_options": [1]}, "network_options"),
        ({"trials": 0}, "trials"),
        ({"trials": -5}, "trials"),
        ({"trials": 10**9}, "trials"),
        ({"trials": 1.5}, "trials"),
        ({"trials": [1]}, "trials"),
        ({"trials_per_batch": 10**6}, "trials_per_batch"),
        ({"strategy": "luck"}, "strategy"),
        ({"sede": 1}, "sede"),
        ({"target": 7}, "target"),
        ({"name": "two\nlines"}, "name"),
    ],
)
def test_it_names_a_bad_field_and_launches_nothing(
    client: Client, known_target: None, change: dict[str, Any], field: str
) -> None:
    response = post(client, "runs", {"network": "mlp", "trials": 8} | change)
    assert response.status_code == 422, response.content
    error = response.json()["error"]
    assert list(error["fields"]) == [field]
    assert error["fields"][field]
    assert not Run.objects.exists()


def test_it_names_every_bad_field_at_once(client: Client, known_target: None) -> None:
    response = post(client, "runs", {"network": "nope", "trials": 0, "seed": -1})
    assert response.json()["error"]["fields"].keys() == {"network", "trials", "seed"}


def test_it_stops_and_resumes(client: Client, known_target: None) -> None:
    share_first_project()
    run = make_run()
    stopped = post(client, f"runs/{run.pk}/stop")
    assert (stopped.status_code, stopped.json()["status"]) == (200, "stopped")
    again = post(client, f"runs/{run.pk}/stop")
    assert again.status_code == 409
    assert again.json()["error"] == {
        "code": "conflict",
        "message": "The run is stopped: only a queued or running run can be stopped.",
    }
    resumed = post(client, f"runs/{run.pk}/resume")
    assert (resumed.status_code, resumed.json()["status"]) == (200, "queued")
    assert post(client, f"runs/{run.pk}/resume").status_code == 409


def test_it_lists_networks_with_their_options(client: Client) -> None:
    answer = get(client, "networks")
    assert [network["name"] for network in answer["items"]] == [
        network["name"] for network in network_list.networks(None)
    ]
    assert {"trials", "trials_per_batch", "seed"} <= {option["name"] for option in answer["run_options"]}
