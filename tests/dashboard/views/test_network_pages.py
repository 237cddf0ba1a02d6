from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from tests import models
from tests.live import LiveSite
from tests.world import TARGET, make_extraction, make_network, make_run, make_user
from tuning.actions.networks.chosen import stored
from tuning.engines.wire.inspecting import OnnxOperator, Operators
from tuning.host import operators, sandbox, targets
from tuning.models import Extraction, Network
from tuning.queue import jobs
from tuning.reads import network_list
from tuning.validation import Invalid

LONG_MS = 120_000


@pytest.fixture(autouse=True)
def targets_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "resolve", lambda _: {"target": TARGET, "device": "cpu", "label": "znver4"})


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    keys: list[int] = []
    monkeypatch.setattr(jobs, "enqueue", lambda extraction: keys.append(extraction.pk))
    return keys


def client_of(role: str) -> Client:
    client = Client()
    client.force_login(make_user(role))
    return client


@pytest.mark.django_db
class TestTheList:
    def test_it_shows_every_network(self) -> None:
        mine = make_network("mine", dims={"batch": 2})
        page = client_of("viewer").get("/networks/")
        for network in network_list.builtin_networks():
            assertContains(page, f'href="/networks/builtin/{network["name"]}/"')
        assertContains(page, f'<a class="row-link" href="/networks/{mine.pk}/">mine</a>')
        assertContains(page, "batch=2")
        assertContains(page, "101,770")

    def test_it_says_what_programs_of_pytorch_need(self, settings: Any) -> None:
        client = client_of("operator")
        settings.TORCH_PYTHON = None
        assertContains(client.get("/networks/"), "(needs <code>TUNEBOARD_TORCH_PYTHON</code>)")
        settings.TORCH_PYTHON = Path("/opt/torch/bin/python")
        page = client.get("/networks/")
        assertNotContains(page, "TUNEBOARD_TORCH_PYTHON")
        assertContains(page, 'accept=".onnx,.pt2,.json"')

    def test_a_converted_network_shows_what_it_came_from(self) -> None:
        versions = {"torch": "2.13.0+cpu", "onnxscript": "0.7.2"}
        source = {"format": "pt2", "sha256": "f" * 64, "size": 2048, "saved_by": "2.12.1+cu130", "versions": versions}
        network = make_network("mine", file_name="mine.pt2", source=source)
        client = client_of("viewer")
        page = client.get(f"/networks/{network.pk}/")
        for said in (
            "mine.pt2",
            "f" * 64,
            "PyTorch 2.12.1+cu130, 2.0\u00a0KB",
            "by PyTorch 2.13.0+cpu and onnxscript 0.7.2",
        ):
            assertContains(page, said)
        assertContains(page, f'href="/api/v1/networks/{network.pk}/model"')
        assertNotContains(page, network.sha256)
        assertContains(client.get("/networks/"), "<td>PyTorch</td>")
        told = client.get(f"/api/v1/networks/{network.pk}").json()
        assert (told["kind"], told["sha256"], told["source"]) == ("onnx", network.sha256, source)
        assert client.get(f"/api/v1/networks/{make_network('plain').pk}").json()["source"] is None

    def test_a_quantized_network_has_a_float_model_if_that_is_chosen(self) -> None:
        network = make_network("int8", operators={"DequantizeLinear": 4, "Gemm": 2})
        path = f"/networks/{network.pk}/"
        operator, viewer = client_of("operator"), client_of("viewer")
        assertContains(operator.get(path), "Upload it to this project, with the same inputs")
        floats = make_network("floats")
        assertContains(operator.get(path), 'data-role="float-form"')
        assertContains(viewer.get(path), "Not recorded.")
        assertNotContains(viewer.get(path), 'data-role="float-form"')
        answer = operator.post(f"{path}float/", {"float_model": floats.pk}, follow=True)
        assertContains(answer, "Libraries of int8 are compared with floats")
        assertContains(answer, f'href="/networks/{floats.pk}/" data-role="float-model"')
        assertContains(
            operator.post(f"{path}float/", {"float_model": network.pk}, follow=True), "Must be another network"
        )
        assertContains(operator.post(f"{path}float/", {"float_model": ""}, follow=True), "aren’t compared")
        assertNotContains(operator.get(f"/networks/{floats.pk}/"), 'id="float-model"')
        assert viewer.post(f"{path}float/", {"float_model": floats.pk}).status_code == 403

    def test_only_operators_upload(self) -> None:
        assertNotContains(client_of("viewer").get("/networks/"), 'type="file"')
        assertContains(client_of("operator").get("/networks/"), 'type="file"')


@pytest.mark.django_db
class TestTheOperators:
    @pytest.fixture(autouse=True)
    def nothing_cached(self) -> None:
        operators._answers.clear()

    def test_the_page_doesnt_wait_for_tvm(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = Operators([OnnxOperator("Conv"), OnnxOperator("LSTM", "unrolled, at most so many")], ["nn.conv2d"])
        monkeypatch.setattr(sandbox, "ask_once", lambda *_: found)
        client = client_of("viewer")
        assertContains(client.get("/networks/"), 'href="/networks/operators/"')
        page = client.get("/networks/operators/")
        assertContains(page, "Asking TVM")
        assertContains(page, 'hx-trigger="load"')
        part = client.get("/networks/operators/", headers={"hx-request": "true"})
        for shown in (part, client.get("/networks/operators/")):
            assertNotContains(shown, "Asking TVM")
            for name in ("Conv", "LSTM", "nn.conv2d"):
                assertContains(shown, f'data-operator="{name}"')
            assertContains(shown, "unrolled, at most so many", count=1)
            assertContains(shown, "2 of ONNX, 1 of Relax")
            assertContains(shown, operators.version())

    def test_it_says_why_tvm_gives_no_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def crash(*_: Any) -> Operators:
            raise sandbox.Died("Its process was killed by SIGSEGV.")

        monkeypatch.setattr(sandbox, "ask_once", crash)
        part = client_of("viewer").get("/networks/operators/", headers={"hx-request": "true"})
        assertContains(part, "Its process was killed by SIGSEGV.")
        assertContains(part, "Retry")


@pytest.mark.browser
def test_operators_are_filtered_as_one_types(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    page.goto(f"{live_site.url}/networks/operators/")
    left = page.locator("[data-operator]:visible")
    expect(page.locator("[data-operator=LSTM]")).to_contain_text("steps are unrolled", timeout=LONG_MS)
    everything = left.count()
    page.keyboard.press("/")
    page.keyboard.type("lst")
    expect(left).to_have_count(1)
    expect(page.get_by_role("status").filter(has_text="of ONNX")).to_have_text("1 of ONNX, 0 of Relax")
    expect(page.get_by_text("Lowered by Tuneboard")).to_be_visible()
    expect(page.get_by_text("Converted by TVM")).to_be_hidden()
    expect(page.get_by_text("No operator of Relax modules")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.get_by_role("searchbox").fill("")
    expect(left).to_have_count(everything)


@pytest.mark.django_db
class TestTheCheckOfAnExtraction:
    def test_it_names_what_is_wrong_and_starts_nothing(self, enqueued: list[int]) -> None:
        client = client_of("operator")
        right = client.post("/networks/builtin/matmul/check/", {"n": "64", "target": "this"}).json()
        assert right == {"fields": {}, "warnings": {}, "target": "llvm · znver4 · 2 cores"}
        wrong = client.post("/networks/builtin/matmul/check/", {"n": "0", "target": ""}).json()
        assert (wrong["fields"].keys(), wrong["target"]) == ({"n", "target"}, None)
        model = make_network("mine")
        assert client.post(f"/networks/{model.pk}/check/", {"target": "this"}).json() == right
        assert client.post(f"/networks/{model.pk}/check/", {"target": " "}).json()["fields"].keys() == {"target"}
        assert (enqueued, Extraction.objects.count()) == ([], 0)

    def test_only_operators_check(self) -> None:
        assert client_of("viewer").post("/networks/builtin/matmul/check/", {"n": "64"}).status_code == 403


@pytest.mark.django_db
class TestThePage:
    def test_it_shows_what_the_model_is_made_of(self) -> None:
        network = make_network(dims={"N": 4})
        page = client_of("viewer").get(f"/networks/{network.pk}/")
        for text in ("101,770", "5.000", "Gemm", "(1, 784) float32", "net.onnx", "Dimension N", "0" * 64):
            assertContains(page, text)
        assertContains(page, "Not extracted yet")
        assertNotContains(page, 'data-role="extract"')

    def test_unknown_properties_are_shown_as_such(self) -> None:
        network = stored("mlp", {"batch": 1, "dtype": "float32"}, None)
        make_run(network=network)
        page = client_of("viewer").get(f"/networks/{network.pk}/")
        assertContains(page, "known once the tasks are extracted")

    def test_tasks_have_shares_shapes_and_tensorir(self) -> None:
        extraction = make_extraction(make_network())
        page = client_of("operator").get(f"/networks/{extraction.network_id}/")
        assertContains(page, "fused_matmul0")
        assertContains(page, "80.0")  # 2 × 2 MFLOP of 2 × 2 + 1 × 1
        assertContains(page, 'max="1" value="0.8"')
        assertContains(page, "(1, 128) float32")
        assertContains(page, '<span class="nd">@T</span>', html=False)
        assertContains(page, '<input type="checkbox" checked', 3)

    def test_viewers_cannot_choose_tasks(self) -> None:
        extraction = make_extraction(make_network())
        page = client_of("viewer").get(f"/networks/{extraction.network_id}/")
        assertContains(page, "fused_matmul0")
        assertNotContains(page, 'aria-label="Tune task')

    def test_the_tensorir_is_escaped(self) -> None:
        extraction = make_extraction(make_network())
        extraction.tasks.update(tensorir="<script>alert(1)</script>", name="<b>bold</b>")
        page = client_of("viewer").get(f"/networks/{extraction.network_id}/").content.decode()
        assert "<script>alert" not in page
        assert "<b>bold" not in page

    def test_each_target_has_a_tab(self) -> None:
        network = make_network()
        make_extraction(network)
        other = make_extraction(network, 1, target=TARGET | {"mcpu": "skylake"})
        page = client_of("viewer").get(f"/networks/{network.pk}/?extraction={other.pk}")
        assertContains(page, f'href="?extraction={other.pk}#tasks" aria-current="true"')
        assertNotContains(page, "fused_matmul1")


@pytest.mark.django_db
class TestExtracting:
    def test_it_requests_an_extraction(self, enqueued: list[int]) -> None:
        network, client = make_network(), client_of("operator")
        answer = client.post(f"/networks/{network.pk}/extract/", {"target": "this"})
        made = Extraction.objects.get()
        assertRedirects(answer, f"/networks/{network.pk}/?extraction={made.pk}#tasks", fetch_redirect_response=False)
        assert enqueued == [made.pk]
        assertContains(client.get(f"/networks/{network.pk}/"), f'hx-get="/extractions/{made.pk}/"')
        assertContains(client.get(f"/extractions/{made.pk}/"), "Waiting for the extraction worker")

    def test_it_shows_the_step_then_the_error(self) -> None:
        client = client_of("viewer")
        one = make_extraction(make_network(), status=Extraction.Status.RUNNING, step="Legalizing and fusing")
        assertContains(client.get(f"/extractions/{one.pk}/"), "Legalizing and fusing")
        assert one.move("running", to="failed", error="It needs more than 4 MiB.")
        page = client.get(f"/extractions/{one.pk}/")
        assertContains(page, "No tasks were extracted. It needs more than 4 MiB.")
        assertNotContains(page, "hx-get")
        assert page.headers["HX-Refresh"] == "true"

    def test_an_empty_target_is_refused(self) -> None:
        client, network = client_of("operator"), make_network()
        for path in (f"/networks/{network.pk}/extract/", "/networks/builtin/mlp/"):
            page = client.post(path, {"target": ""})
            assertContains(page, "Enter a target, or", status_code=422)
        assert not Extraction.objects.exists()

    def test_a_target_error_is_shown_at_its_field(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(_target: Any) -> Any:
            raise Invalid({"target": "There is no such tag."})

        for name in ("resolve", "resolve_elsewhere"):
            monkeypatch.setattr(targets, name, refuse)
        network = make_network()
        page = client_of("operator").post(f"/networks/{network.pk}/extract/", {"target": "nvidia/none"})
        assert page.status_code == 422
        assertContains(page, "There is no such tag.", status_code=422)
        assertContains(page, "nvidia/none", status_code=422)

    def test_a_built_in_network_is_extracted_with_its_options(self, enqueued: list[int]) -> None:
        client = client_of("operator")
        assertContains(client.get("/networks/builtin/resnet-18/"), 'name="layout"')
        answer = client.post("/networks/builtin/resnet-18/", {"batch": "4", "layout": "NCHW", "target": "this"})
        network = Network.objects.get()
        assertRedirects(answer, f"/networks/{network.pk}/")
        assert network.options == {"batch": 4, "layout": "NCHW", "dtype": "float32"}
        assert len(enqueued) == 1
        assertContains(client.get("/networks/builtin/resnet-18/"), "layout=NCHW")

    def test_an_option_error_is_shown_at_its_field(self) -> None:
        page = client_of("operator").post("/networks/builtin/resnet-18/", {"batch": "0"})
        assert page.status_code == 422
        assert list(page.context["form"].errors) == ["batch"]
        assert not Network.objects.exists()

    def test_an_unknown_network_is_not_found(self) -> None:
        assert client_of("viewer").get("/networks/builtin/lenet/").status_code == 404


@pytest.mark.django_db
class TestDeleting:
    def test_admins_delete_networks_without_runs(self) -> None:
        admin, network = client_of("admin"), make_network()
        assertContains(admin.get(f"/networks/{network.pk}/"), 'data-role="delete"')
        assertRedirects(admin.post(f"/networks/{network.pk}/delete/"), "/networks/")
        assert not Network.objects.exists()

    def test_runs_keep_their_network(self) -> None:
        admin, network = client_of("admin"), make_network()
        make_run(network=network)
        assertNotContains(admin.get(f"/networks/{network.pk}/"), 'data-role="delete"')
        page = admin.post(f"/networks/{network.pk}/delete/", follow=True)
        assertContains(page, "It has runs")
        assert Network.objects.exists()

    def test_operators_do_not_delete(self) -> None:
        operator, network = client_of("operator"), make_network()
        assertNotContains(operator.get(f"/networks/{network.pk}/"), 'data-role="delete"')
        assert operator.post(f"/networks/{network.pk}/delete/").status_code == 403


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def choose(page: Page, name: str, data: bytes) -> None:
    page.get_by_label("File").set_input_files({"name": name, "mimeType": "application/octet-stream", "buffer": data})
    role(page, "upload-submit").click()


@pytest.mark.browser
@pytest.mark.tvm
def test_a_model_goes_from_upload_to_a_finished_run(live_site: LiveSite, signed_in: Page) -> None:
    """In the browser alone. The first file is broken, and the model leaves its batch open."""
    page = signed_in
    page.goto(f"{live_site.url}/networks/")
    choose(page, "broken.onnx", models.convnet().SerializeToString()[:-200])
    expect(page.locator("[data-field=file]")).to_contain_text("not an ONNX model", timeout=LONG_MS)
    choose(page, "small.onnx", models.convnet("batch", 4, 8).SerializeToString())
    expect(page.get_by_label("batch")).to_be_focused(timeout=LONG_MS)
    page.get_by_label("batch").fill("2")
    role(page, "upload-submit").click()
    page.wait_for_url(re.compile(r"/networks/\d+/$"), timeout=LONG_MS)
    expect(page.get_by_role("heading", name="small")).to_be_visible()
    expect(page.get_by_text("(2, 3, 8, 8) float32")).to_be_visible()

    role(page, "extract").click()
    rows = page.locator("[data-role=extracted] tbody tr")
    expect(rows.filter(has_text="conv2d")).to_have_count(1, timeout=LONG_MS)
    tasks = rows.count()
    rows.nth(0).locator("summary").click()
    expect(rows.nth(0).locator("pre")).to_contain_text("conv2d")
    role(page, "all-tasks").uncheck()
    expect(role(page, "launch-chosen")).to_be_disabled()
    rows.filter(has_text="conv2d").locator("input").check()
    expect(role(page, "choice")).to_contain_text(f"1 of {tasks} tasks")
    role(page, "launch-chosen").click()
    page.wait_for_url(re.compile(r"/runs/new/\?"))
    asked = parse_qs(urlsplit(page.url).query)
    assert (asked["network"], asked["tasks"]) == (["small"], ["0"])
    expect(page.get_by_role("radio", name="small")).to_be_checked()

    page.get_by_label("Trials", exact=True).fill("4")
    page.get_by_label("Trials per batch").fill("4")
    expect(page.locator("[name=tasks]")).to_have_value("0")
    page.get_by_label("Minimum time of a repeat (ms)").fill("10")
    role(page, "launch-submit").click()
    page.wait_for_url(re.compile(r"/runs/\d+/$"), timeout=LONG_MS)
    expect(role(page, "status")).to_have_text("finished", timeout=LONG_MS)


@pytest.mark.browser
@pytest.mark.parametrize("path", ["/networks/", "/networks/builtin/resnet-18/", "/runs/new/", "/runs/", "/machines/"])
def test_it_fits_on_a_phone(live_site: LiveSite, signed_in: Page, path: str) -> None:
    signed_in.set_viewport_size({"width": 390, "height": 800})
    signed_in.goto(f"{live_site.url}{path}")
    assert signed_in.evaluate("document.documentElement.scrollWidth") == 390
    expect(role(signed_in, "display-menu")).to_be_in_viewport()
