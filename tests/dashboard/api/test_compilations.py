"""Compilations in the API."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.test import Client

from tests.sockets import Socket
from tests.world import make_compilation, make_network, make_run, make_user, measured_run, publish
from tuning.engines.wire.versions import PINS
from tuning.models import Compilation
from tuning.notify import announce
from tuning.queue import jobs

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)
    client = Client()
    client.force_login(make_user("operator", "ada"))
    return client


def post(client: Client, path: str, body: str = "{}") -> Any:
    return client.post(f"/api/v1/{path}", body, content_type="application/json")


def test_it_queues_a_compilation(operator: Client) -> None:
    run = measured_run(versions=dict(PINS))
    answer = post(operator, f"runs/{run.pk}/compilations", '{"source": "library"}')
    assert answer.status_code == 201
    made = answer.json()
    assert (made["status"], made["source"], made["created_by"], made["verified"]) == ("queued", "library", "ada", None)
    assert operator.get(f"/api/v1/runs/{run.pk}/compilations").json()["items"] == [made]
    assert operator.get(f"/api/v1/compilations/{made['id']}").json() == made


def test_it_queues_one_that_chooses_inside_the_network(operator: Client) -> None:
    run = measured_run(versions=dict(PINS))
    made = post(operator, f"runs/{run.pk}/compilations", '{"choose": "inside"}')
    assert (made.status_code, made.json()["stage"], made.json()["chosen"]) == (201, "choose", None)
    refused = post(operator, f"runs/{run.pk}/compilations", '{"choose": "outside"}')
    assert (refused.status_code, list(refused.json()["error"]["fields"])) == (422, ["choose"])


def test_it_says_why_a_run_cannot_be_compiled(operator: Client) -> None:
    answer = post(operator, f"runs/{make_run().pk}/compilations")
    assert answer.status_code == 409
    assert "no valid record yet" in answer.json()["error"]["message"]
    answer = post(operator, f"runs/{measured_run().pk}/compilations", '{"source": "best"}')
    assert answer.json()["error"]["fields"] == {"source": "Must be one of run, library, not 'best'."}
    assert post(operator, "runs/99/compilations").status_code == 404


def test_it_tells_what_would_be_built_untuned(operator: Client) -> None:
    run = measured_run([(0, 1e-3)], versions=dict(PINS))
    path = f"/api/v1/runs/{run.pk}/untuned"
    assert operator.get(path).json() == {
        "source": "run",
        "tasks": 2,
        "untuned": [{"index": 1, "name": "fused_matmul1", "weight": 2, "why": "it has no trial yet"}],
        "trouble": None,
    }
    assert [one["index"] for one in operator.get(f"{path}?source=library").json()["untuned"]] == [1]
    assert operator.get(f"{path}?source=best").status_code == 422
    run.tasks.get(index=0).records.all().delete()
    answer = operator.get(path).json()
    assert (answer["untuned"], answer["trouble"]) == (
        [],
        "The run has no valid record yet, so there is nothing to compile.",
    )


def test_it_cancels_and_benchmarks_again(operator: Client) -> None:
    compilation = make_compilation()
    path = f"compilations/{compilation.pk}"
    answer = post(operator, f"{path}/benchmarks")
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["waits_for"]) == ("queued", "cpu")
    assert post(operator, f"{path}/benchmarks").status_code == 409
    assert post(operator, f"{path}/cancel").json()["status"] == "finished"
    assert post(operator, f"{path}/cancel").status_code == 409


def test_it_shows_every_benchmark_and_the_latest_figures(operator: Client) -> None:
    compilation = make_compilation()
    shown = operator.get(f"/api/v1/compilations/{compilation.pk}").json()
    assert shown["coverage"] == {"functions": 2, "tuned": 1, "untuned": ["fused_matmul1"]}
    assert (shown["measured_s"], shown["speedup"]) == (9e-3, pytest.approx(10.0))
    assert [one["rounds"] for one in shown["benchmarks"]] == [3]


def test_library_and_manifest_have_descriptive_names(operator: Client) -> None:
    compilation = make_compilation()
    publish(compilation)
    name = f"mlp_znver4_run-{compilation.run_id}_compilation-{compilation.pk}"
    for what, path in (("artifact", compilation.library), ("manifest", compilation.manifest)):
        answer: Any = operator.get(f"/api/v1/compilations/{compilation.pk}/{what}")
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}{path.suffix}"'
        assert answer.getvalue() == path.read_bytes()


def bundle(client: Client, compilation: Compilation) -> zipfile.ZipFile:
    answer: Any = client.get(f"/api/v1/compilations/{compilation.pk}/bundle")
    content = answer.getvalue()
    assert int(answer.headers["Content-Length"]) == len(content)
    return zipfile.ZipFile(io.BytesIO(content))


def test_the_bundle_has_all_that_belongs_to_a_library(operator: Client) -> None:
    compilation = make_compilation()
    publish(compilation)
    found = bundle(operator, compilation)
    stem = f"mlp_znver4_run-{compilation.run_id}_compilation-{compilation.pk}"
    assert found.namelist() == [f"{stem}.so", "manifest.json", f"{stem}.py", f"{stem}.cpp", "LICENSES.txt"]
    assert found.testzip() is None
    assert found.read(f"{stem}.so") == compilation.library.read_bytes()
    assert f'"{stem}.so"' in found.read(f"{stem}.py").decode()
    manifest = json.loads(found.read("manifest.json"))
    assert (manifest["format"], manifest["proof"]["verified"], manifest["benchmark"]["rounds"]) == (1, True, 3)
    licenses = found.read("LICENSES.txt").decode()
    assert "Tuneboard has drawn them at random" in licenses
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in licenses


def test_the_bundle_says_what_is_not_known(operator: Client) -> None:
    run = measured_run(network=make_network("theirs"))
    compilation = make_compilation(run, verified=None)
    publish(compilation)
    found = bundle(operator, compilation)
    manifest = json.loads(found.read("manifest.json"))
    assert (manifest["proof"], manifest["benchmark"]) == (None, None)
    assert "Their license isn't known here" in found.read("LICENSES.txt").decode()


@pytest.mark.parametrize("what", ["artifact", "manifest", "snippets", "bundle"])
def test_without_a_library_there_are_no_files(operator: Client, what: str) -> None:
    compilation = make_compilation(sha256=None, status=Compilation.Status.FAILED)
    answer = operator.get(f"/api/v1/compilations/{compilation.pk}/{what}")
    assert answer.status_code == 409
    assert answer.json()["error"]["message"] == "There is no library: the compilation is failed."


def test_it_returns_the_log_from_an_offset(operator: Client) -> None:
    compilation = make_compilation()
    compilation.folder.mkdir(parents=True)
    compilation.console_log.write_text("one\ntwo\n")
    path = f"/api/v1/compilations/{compilation.pk}/log"
    assert operator.get(path).json() == {"text": "one\ntwo\n", "start": 0, "end": 8}
    assert operator.get(f"{path}?after=4").json()["text"] == "two\n"


def test_its_python_snippet_is_valid(operator: Client) -> None:
    compilation = make_compilation()
    publish(compilation)
    items = operator.get(f"/api/v1/compilations/{compilation.pk}/snippets").json()["items"]
    (python,) = [one for one in items if one["language"] == "python"]
    compile(python["text"], python["file_name"], "exec")
    assert "apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1" in python["text"]


@pytest.mark.django_db(transaction=True)
async def test_its_socket_sends_the_state_and_then_deltas(client: Client) -> None:
    compilation = await database_sync_to_async(make_compilation)()
    await database_sync_to_async(client.force_login)(await database_sync_to_async(make_user)("viewer"))
    socket = Socket(client, f"/ws/compilations/{compilation.pk}/")
    assert await socket.connect()
    state = await socket.read()
    assert (state["type"], state["compilation"]["id"]) == ("state", compilation.pk)
    await database_sync_to_async(compilation.move)("finished", to="cancelling")
    await database_sync_to_async(announce.announce_compilation)(compilation.pk)
    delta = await socket.read()
    assert (delta["type"], delta["compilation"]["status"]) == ("delta", "cancelling")
    await socket.close()
