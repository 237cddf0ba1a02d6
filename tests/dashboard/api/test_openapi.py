"""The OpenAPI page and docs/api.md agree with the API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.test import Client
from playwright.sync_api import expect

from dashboard.api import api
from dashboard.http.errors import CODES
from dashboard.models import ApiToken
from tests.live import LiveSite
from tests.world import (
    make_check,
    make_compilation,
    make_extraction,
    make_machine,
    make_network,
    make_result,
    make_run,
    make_template,
    make_user,
    measured_beside,
    measured_run,
    publish,
    write_record_files,
)
from tuning.actions import launching, runs
from tuning.models import BadLine, Import, Run
from tuning.reads import showing
from tuning.reads.library import tvm
from tuning.reads.run_list import RunOrder
from tuning.validation import Invalid


@pytest.fixture
def schema() -> Any:
    return json.loads(json.dumps(api.get_openapi_schema()))


@pytest.fixture
def document() -> str:
    return Path(settings.BASE_DIR, "docs", "api.md").read_text()


def operations(schema: Any) -> dict[str, Any]:
    return {f"{method.upper()} {path}": op for path, ops in schema["paths"].items() for method, op in ops.items()}


def resolved(schema: Any, part: Any) -> Any:
    while "$ref" in part:
        part = schema["components"]["schemas"][part["$ref"].rpartition("/")[2]]
    return part


TYPES: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
    "array": list,
    "object": dict,
}


def mismatches(schema: Any, part: Any, value: Any, at: str = "$") -> Iterator[str]:
    """Where the value, or anything in it, isn't as described."""
    described = resolved(schema, part)
    if ways := described.get("anyOf"):
        if not any(next(mismatches(schema, way, value), None) is None for way in ways):
            yield f"{at}: {value!r}"
    elif ("type" in described and not isinstance(value, TYPES[described["type"]])) or (
        "enum" in described and value not in described["enum"]
    ):
        yield f"{at}: {value!r}"
    elif isinstance(value, dict):
        yield from _inside(schema, described, value, at)
    elif isinstance(value, list):
        for one in value:
            yield from mismatches(schema, described.get("items", {}), one, f"{at}[]")


def _inside(schema: Any, described: Any, value: dict[str, Any], at: str) -> Iterator[str]:
    properties, others = (
        described.get("properties", {}),
        described.get("additionalProperties", "properties" not in described),
    )
    yield from (f"{at}.{name}: missing" for name in set(described.get("required", ())) - value.keys())
    for name, one in value.items():
        if name not in properties and others is False:
            yield f"{at}.{name}: not described"
        else:
            inner = properties.get(name, others)
            yield from mismatches(schema, {} if inner is True else inner, one, f"{at}.{name}")


def test_docs_list_exactly_the_existing_calls(schema: Any, document: str) -> None:
    listed = set(re.findall(r"^\| `((?:GET|POST|PUT|PATCH|DELETE) /api/\S+)`", document, re.MULTILINE))
    assert listed == operations(schema).keys()


def test_docs_name_every_parameter_and_code(schema: Any, document: str) -> None:
    parameters = {
        p["name"] for op in operations(schema).values() for p in op.get("parameters", []) if p["in"] == "query"
    }
    for name in parameters | {code for code, _ in CODES.values()} | {order.lstrip("-") for order in get_args(RunOrder)}:
        assert f"`{name}`" in document, name


@pytest.mark.django_db
def test_the_error_in_the_docs_is_real(document: str) -> None:
    (example,) = re.findall(r'^({"error": .*})$', document, re.MULTILINE)
    with pytest.raises(Invalid) as raised:
        runs.launch({"network": "mlp", "trials": 0, "target": 0}, None)
    assert json.loads(example)["error"]["fields"]["trials"] == raised.value.fields["trials"]


def test_it_lists_every_status_of_a_run(schema: Any) -> None:
    (status,) = [p for p in operations(schema)["GET /api/v1/runs"]["parameters"] if p["name"] == "status"]
    assert resolved(schema, status["schema"]["items"])["enum"] == Run.Status.values


def test_every_call_declares_its_authentication_and_errors(schema: Any) -> None:
    for name, operation in operations(schema).items():
        assert {"TokenAuth", "SessionAuth"} <= {key for way in operation["security"] for key in way}, name
        assert {"401", "403", "404", "422", "500"} <= operation["responses"].keys(), name


@pytest.mark.django_db
def test_it_describes_every_field_of_a_run(schema: Any) -> None:
    described = schema["components"]["schemas"]["RunDict"]["properties"]
    assert described["estimated_latency_s"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert described.keys() == measured_run().to_full_dict().keys()


@pytest.mark.django_db
def test_it_describes_the_body_of_a_launch(schema: Any) -> None:
    body = operations(schema)["POST /api/v1/runs"]["requestBody"]["content"]["application/json"]["schema"]
    properties = body["properties"]
    for option in [*launching.budget_options(), *launching.tuning_options()]:
        described = properties[option["name"]]
        value = described.get("anyOf", [described])[0]
        bounds = value.get("items", value)
        assert bounds.get("minimum", bounds.get("exclusiveMinimum")) == option["minimum"]
        assert value.get("enum") == option["choices"]
    with pytest.raises(Invalid) as raised:
        runs.launch({name: object() for name in properties}, None)
    assert "There is no such" not in str(raised.value)
    assert body["additionalProperties"] is False


@pytest.mark.django_db
def test_responses_match_the_schema(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "show", lambda _: showing.Shown("code", [], "tensorir", packs=False))
    run = measured_run(latencies=[(0, None), (1, 2e-3), (0, 1e-3)], versions={"apache-tvm": tvm()})
    write_record_files(run)
    run.console_log.write_text("printed")
    extraction, compilation = make_extraction(run.tuned_network), make_compilation(run)
    publish(compilation)
    imported = Import.objects.create(
        project=run.project,
        files=[{"name": "a.json", "size": 5, "sha256": "0"}],
        results=[{"log": "a.json", "engine": "autotvm", "run": run.pk, "known": False}],
        skipped=[{"file": "b", "reason": "it is empty"}],
        remarks=[{"file": "a.json", "line": 1, "text": "version v0.9 is unknown"}],
    )
    BadLine.objects.create(imported_by=imported, file="a.json", line=2, reason="it is torn")
    other = make_run()
    beside = measured_beside([run, other], {(0, 1): [1e-3] * 5, (0, 0): []})
    check = make_check(run)
    make_result(check, run=run, compilation=compilation, base_s=9e-3, change=0.1, noise=0.2)
    uploaded = make_network(size=5)
    uploaded.file.parent.mkdir(parents=True, exist_ok=True)
    uploaded.file.write_bytes(b"model")
    client, admin, machine, template = Client(), make_user("admin"), make_machine(), make_template()
    client.force_login(admin)
    ApiToken.issue(admin)

    for name, operation in operations(schema).items():
        method, path = name.split()
        if method == "GET":
            keys: dict[str, Any] = {
                "run_id": run.pk,
                "index": 0,
                "trial": 3,
                "network_id": uploaded.pk,
                "extraction_id": extraction.pk,
                "import_id": imported.pk,
                "compilation_id": compilation.pk,
                "comparison_id": beside.pk,
                "check_id": check.pk,
                "project_id": run.project_id,
                "template_id": template.pk,
                "name": machine.name,
            }
            keys["workload_hash"] = run.tasks.values_list("workload_hash", flat=True)[0]
            others = {"/api/v1/compare": f"{run.pk},{other.pk}", "/api/v1/records": str(run.pk)}
            query = {"runs": others[path]} if path in others else {}
            response = client.get(path.format(**keys), query)
            content = operation["responses"]["200"]["content"]
            assert response.headers["Content-Type"].partition(";")[0] in content, name
            if response.streaming or "application/json" not in content:
                continue
            assert not list(mismatches(schema, content["application/json"]["schema"], response.json())), name


@pytest.mark.django_db
def test_a_script_can_read_the_schema() -> None:
    token = ApiToken.issue(make_user("viewer"))
    response = Client().get("/api/v1/openapi.json", headers={"authorization": f"Bearer {token}"})
    assert response.json()["info"]["title"] == "Tuneboard"


@pytest.mark.django_db
def test_the_page_requires_signing_in(client: Client) -> None:
    assert client.get("/api/v1/docs").headers["Location"] == "/sign-in/?next=/api/v1/docs"


@pytest.mark.django_db
def test_the_page_loads_nothing_from_other_sites(client: Client) -> None:
    client.force_login(make_user("viewer"))
    page = client.get("/api/v1/docs").content.decode()
    files = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert {"/static/ninja/swagger-ui-bundle.js", "/static/js/pages/api.js", "/runs/"} <= set(files)
    static = [file.removeprefix("/static/").partition("#")[0] for file in files if file.startswith("/static/")]
    assert all(map(finders.find, static))
    assert all(file.startswith(("/", "#")) and not file.startswith("//") for file in files)
    assert not re.findall(r"https?://", page)
    assert not re.findall(r"<script(?![^>]*(?:src=|application/json))", page)


@pytest.mark.browser
def test_the_page_works_under_the_content_security_policy(live_site: LiveSite, signed_in: Any) -> None:
    signed_in.goto(f"{live_site.url}/api/v1/docs")
    signed_in.wait_for_selector(".opblock")
    expect(signed_in.get_by_role("navigation", name="Main").locator("[aria-current=page]")).to_have_text("API")
    assert signed_in.locator(".opblock").count() == len(operations(json.loads(json.dumps(api.get_openapi_schema()))))
    signed_in.locator("#operations-networks-dashboard_api_networks_list_networks").click()
    signed_in.get_by_role("button", name="Try it out").click()
    signed_in.get_by_role("button", name="Execute").click()
    signed_in.wait_for_selector(".live-responses-table .response-col_status:has-text('200')")


@pytest.mark.browser
def test_the_page_follows_the_theme_and_leads_back(live_site: LiveSite, signed_in: Any) -> None:
    page = signed_in
    page.emulate_media(color_scheme="dark")
    page.goto(f"{live_site.url}/api/v1/docs")
    page.wait_for_selector(".opblock")
    text = "getComputedStyle(document.querySelector('.opblock-tag')).color"
    dark = page.evaluate(text)
    page.locator("[data-role=display]").click()
    page.locator("[data-choice=theme][value=light]").click()
    expect(page.locator("html")).not_to_have_class("dark-mode")
    page.wait_for_function(f"dark => {text} !== dark", arg=dark)
    page.locator("[data-choice=theme][value=system]").click()
    expect(page.locator("html")).to_have_class("dark-mode")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Runs").click()
    page.wait_for_url(f"{live_site.url}/runs/")
