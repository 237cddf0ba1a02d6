"""Uploading and deleting models, and extracting tasks, in the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard.models import ApiToken
from tests.world import TARGET, make_extraction, make_network, make_run, make_user, task_infos
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Inspected, OnnxOperator, Operators
from tuning.engines.wire.protocol import NetworkSpec, TensorInfo
from tuning.host import operators, sandbox, targets
from tuning.models import Extraction, Network, Project
from tuning.queue import jobs
from tuning.work import inspection

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def without_tvm(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is valid unless its bytes start with "bad"; targets are resolved without TVM."""

    def inspect(network: NetworkSpec, *_: Any) -> Inspected:
        assert network.file is not None
        if (data := Path(network.file.path).read_bytes()).startswith(b"bad"):
            raise Refused(data.decode(), ["N", "M"] if b"open" in data else None)
        return Inspected([TensorInfo("x", [1], "float32")], 7, {"Conv": 2}, task_infos())

    settings.VAR = tmp_path
    monkeypatch.setattr(inspection, "inspect", inspect)
    monkeypatch.setattr(targets, "resolve", lambda _: {"target": TARGET, "device": "cpu", "label": "znver4"})


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids of enqueued extractions."""
    keys: list[int] = []
    monkeypatch.setattr(jobs, "enqueue", lambda extraction: keys.append(extraction.pk))
    return keys


def client_of(role: str) -> Client:
    return Client(headers={"authorization": f"Bearer {ApiToken.issue(make_user(role))}"})


@pytest.fixture
def operator() -> Client:
    return client_of("operator")


def upload(client: Client, data: bytes = b"model", **fields: Any) -> Any:
    return client.post("/api/v1/networks", {"file": SimpleUploadedFile("net.onnx", data), **fields})


def test_it_stores_a_model_once(operator: Client) -> None:
    answer = upload(operator, name="mine", dims='{"N": 4}')
    assert answer.status_code == 201
    shown = answer.json()
    assert (shown["name"], shown["kind"], shown["dims"], shown["operators"]) == ("mine", "onnx", {"N": 4}, {"Conv": 2})
    assert shown["uploaded_by"] == "a-operator"
    again = upload(operator, dims='{"N": 4}')
    assert (again.status_code, again.json()) == (200, shown)
    assert operator.get(f"/api/v1/networks/{shown['id']}").json() == shown
    listed = operator.get("/api/v1/networks").json()["items"][-1]
    assert (listed["name"], listed["id"], listed["family"]) == ("mine", shown["id"], "Uploaded")


def test_a_quantized_network_gets_the_model_that_it_was_made_from(operator: Client) -> None:
    quantized, floats = make_network("int8", operators={"DequantizeLinear": 1}), make_network("floats")
    path = f"/api/v1/networks/{quantized.pk}"

    def change(body: Any) -> Any:
        return operator.patch(path, body, content_type="application/json")

    assert change({"float_model": floats.pk}).json()["float_model"] == floats.pk
    assert operator.get(path).json()["float_model"] == floats.pk
    answer = change({"float_model": quantized.pk})
    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (422, ["float_model"])
    for body in ({}, {"floats": 1}):
        assert change(body).status_code == 422, body
    assert operator.get(path).json()["float_model"] == floats.pk, "what was wrong changed nothing"
    assert change({"float_model": None}).json()["float_model"] is None
    assert (
        client_of("viewer").patch(path, {"float_model": floats.pk}, content_type="application/json").status_code == 403
    )


@pytest.mark.parametrize(
    ("data", "fields", "wrong"),
    [
        (b"bad one", {}, {"file": "bad one"}),
        (
            b"bad: open",
            {"dims": '{"N": 1, "K": 2}'},
            {
                "dims.K": "The model has no open dimension of this name.",
                "dims.M": "The model leaves this dimension open: enter its value.",
            },
        ),
        (b"model", {"dims": "N=1"}, {"dims": 'Must be a JSON object of names and numbers, such as {"batch": 1}.'}),
        (b"model", {"dims": "[1]"}, {"dims": 'Must be a JSON object of names and numbers, such as {"batch": 1}.'}),
        (b"model", {"name": "mlp"}, {"name": "A built-in network has that name."}),
    ],
)
def test_it_names_what_is_wrong_and_keeps_nothing(
    operator: Client, data: bytes, fields: dict[str, str], wrong: dict[str, str], tmp_path: Path
) -> None:
    answer = upload(operator, data, **fields)
    assert (answer.status_code, answer.json()["error"]["fields"]) == (422, wrong)
    assert not Network.objects.exists()
    assert list((tmp_path / "networks").glob("*")) == []


def test_it_requires_a_file(operator: Client) -> None:
    answer = operator.post("/api/v1/networks", {"name": "x"})
    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (422, ["file"])
    answer = operator.post("/api/v1/networks", "{}", "application/json")
    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (422, ["file"])


def test_what_engines_read_is_downloaded(operator: Client) -> None:
    network = Network.objects.get(pk=upload(operator, b"a model").json()["id"])
    viewer = client_of("viewer")
    path = f"/api/v1/networks/{network.pk}/model"
    answer: Any = viewer.get(path)
    assert (b"".join(answer.streaming_content), answer["Content-Length"]) == (b"a model", "7")
    assert answer["Content-Disposition"] == 'attachment; filename="net_model.onnx"'
    assert viewer.get(path, headers={"if-none-match": answer["ETag"]}).status_code == 304
    named = Network.objects.called("known", Project.objects.default())
    refused = viewer.get(f"/api/v1/networks/{named.pk}/model")
    assert (refused.status_code, refused.json()["error"]["message"]) == (409, "Only uploaded models have a file.")


def test_an_upload_over_the_limit_is_refused(operator: Client, settings: Any) -> None:
    settings.UPLOAD_MB = 1
    assert upload(operator, b"x" * (2 << 20)).status_code == 413
    assert upload(operator, b"x" * ((1 << 20) + 1)).json()["error"]["fields"]["file"].startswith("Larger than 1 MiB")
    assert not Network.objects.exists()


def test_only_admins_delete() -> None:
    network = make_network()
    assert client_of("operator").delete(f"/api/v1/networks/{network.pk}").status_code == 403
    admin = client_of("admin")
    run = make_run(network=network)
    answer = admin.delete(f"/api/v1/networks/{network.pk}")
    assert (answer.status_code, answer.json()["error"]["message"][:11]) == (409, "It has runs")
    run.delete()
    assert admin.delete(f"/api/v1/networks/{network.pk}").status_code == 204
    assert admin.get(f"/api/v1/networks/{network.pk}").status_code == 404


def test_it_extracts_tasks_once_per_target(operator: Client, enqueued: list[int]) -> None:
    asked = {"network": "mlp", "network_options": {"batch": 2}, "target": "this"}
    answer = operator.post("/api/v1/extractions", asked, "application/json")
    assert answer.status_code == 202
    shown = answer.json()
    assert (shown["network"], shown["status"], shown["target"], shown["tasks"]) == ("mlp", "queued", TARGET, [])
    assert operator.post("/api/v1/extractions", asked, "application/json").json()["id"] == shown["id"]
    assert enqueued == [shown["id"]]
    assert Network.objects.get().options == {"batch": 2, "dtype": "float32"}


def test_a_failed_extraction_is_tried_again(operator: Client, enqueued: list[int]) -> None:
    failed = make_extraction(make_network(), status=Extraction.Status.FAILED, error="It needs more memory.")
    assert operator.get(f"/api/v1/extractions/{failed.pk}").json()["error"] == "It needs more memory."
    answer = operator.post("/api/v1/extractions", {"network": "net"}, "application/json").json()
    assert (answer["id"], answer["status"], answer["error"]) == (failed.pk, "queued", None)
    assert enqueued == [failed.pk]


def test_it_shows_the_tasks(operator: Client) -> None:
    extraction = make_extraction(make_network())
    shown = operator.get(f"/api/v1/extractions/{extraction.pk}").json()
    assert [task["name"] for task in shown["tasks"]] == [info.name for info in task_infos()]
    assert shown["tasks"][0]["args"][0] == {"name": "x", "shape": [1, 784], "dtype": "float32"}
    assert "prim_func" in shown["tasks"][0]["tensorir"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "network"),
        ({"network": "nonsense"}, "network"),
        ({"network": "mlp", "network_options": {"batch": 0}}, "network_options.batch"),
        ({"network": "mlp", "target": 3}, "target"),
        ({"network": "mlp", "trials": 3}, "trials"),
    ],
)
def test_it_names_what_is_wrong_with_an_extraction(
    operator: Client, enqueued: list[int], body: dict[str, Any], field: str
) -> None:
    answer = operator.post("/api/v1/extractions", body, "application/json")
    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (422, [field])
    assert not enqueued
    assert not Extraction.objects.exists()


def test_it_lists_the_operators_that_uploads_may_have(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    operators._answers.clear()
    monkeypatch.setattr(sandbox, "ask_once", lambda *_: Operators([OnnxOperator("GRU", "limits")], ["add"]))
    answer = operator.get("/api/v1/networks/operators")
    assert answer.json() == {
        "tvm": operators.version(),
        "onnx": [{"name": "GRU", "lowered": "limits"}],
        "relax": ["add"],
    }


def test_operators_are_unavailable_while_tvm_gives_no_answer(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> Operators:
        raise sandbox.Died("Its process was killed by SIGSEGV.")

    operators._answers.clear()
    monkeypatch.setattr(sandbox, "ask_once", crash)
    answer = operator.get("/api/v1/networks/operators")
    assert answer.status_code == 503
    assert "killed by SIGSEGV" in answer.json()["error"]["message"]
