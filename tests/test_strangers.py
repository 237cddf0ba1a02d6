"""Whoever isn't in a project learns nothing of it: neither names nor numbers, by no route.

The same site is looked at twice, without and with the other project. Both times every page and operation must say the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from dashboard.accounts import put_into_role
from dashboard.asgi import sockets
from dashboard.consumers import NO_SUCH_RUN
from dashboard.models import ApiToken, Person
from tests.sockets import Socket
from tests.test_anonymous import every_operation, every_path, filled
from tests.world import (
    TARGET,
    make_check,
    make_compilation,
    make_extraction,
    make_machine,
    make_network,
    make_result,
    make_run,
    make_template,
    make_user,
    measured_run,
    publish,
    set_beside,
    task_infos,
    write_record_files,
)
from tuning.actions.curation import change_tags
from tuning.engines.wire.inspecting import Inspected, Operators
from tuning.engines.wire.protocol import TensorInfo
from tuning.host import operators, targets
from tuning.models import (
    Compilation,
    Delivery,
    Extraction,
    Import,
    LaunchTemplate,
    Membership,
    Network,
    Project,
    Record,
    Run,
    SideBySide,
    Task,
)
from tuning.queue import jobs
from tuning.reads import showing
from tuning.reads.library import is_known, tvm
from tuning.reads.machines.listing import machines
from tuning.work import inspection
from tuning.work.warm_start import warm_start

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
VEILED, OWN = 1, 7
"""The number in the path of what the other project has, and of what the stranger has."""
HASH = f"{0:016x}"
"""Of a workload that the runs of both projects have."""

OF_PROJECT = {
    *(
        f"GET /runs/1/{part}"
        for part in (
            "",
            "figures/",
            "time/",
            "time/predicted/",
            "conditions/",
            "verdict/",
            "roofline/",
            "trials/",
            "console/",
            "notes/",
            "untuned/",
        )
    ),
    *(f"POST /runs/1/{part}/" for part in ("marks", "stop", "resume", "extend", "priority", "compile")),
    "GET /runs/1/tasks/1/",
    "GET /runs/1/tasks/1/figures/",
    "GET /runs/1/tasks/1/code/1/1/",
    "GET /runs/1/tasks/1/decisions/",
    "GET /compilations/1/",
    "GET /compilations/1/figures/",
    "POST /compilations/1/cancel/",
    "POST /compilations/1/benchmark/",
    "GET /comparisons/1/",
    "POST /comparisons/1/cancel/",
    "GET /imports/1/",
    "POST /imports/1/cancel/",
    "GET /networks/1/",
    "POST /networks/1/check/",
    "POST /networks/1/extract/",
    "POST /networks/1/float/",
    "POST /networks/1/delete/",
    "GET /extractions/1/",
    "GET /library/1/",
    *(f"GET /regressions/1/{part}" for part in ("", "figures/", "edit/")),
    *(f"POST /regressions/1/{part}/" for part in ("edit", "set", "run", "badge", "delete")),
    *(f"{method} /api/v1/regression-checks/1" for method in ("GET", "PATCH", "DELETE")),
    *(f"{method} /api/v1/regression-checks/1/results" for method in ("GET", "POST")),
    "POST /api/v1/regression-checks/1/badge",
    "GET /api/v1/networks/1",
    "GET /api/v1/networks/1/model",
    "PATCH /api/v1/networks/1",
    "DELETE /api/v1/networks/1",
    "GET /api/v1/extractions/1",
    "GET /api/v1/imports/1",
    "GET /api/v1/imports/1/bad-lines",
    "POST /api/v1/imports/1/cancel",
    "GET /api/v1/library/1",
    "GET /api/v1/runs/1",
    "PATCH /api/v1/runs/1",
    "DELETE /api/v1/runs/1",
    "POST /api/v1/runs/1/restore",
    "PATCH /api/v1/runs/1/marks",
    "POST /api/v1/runs/1/stop",
    "POST /api/v1/runs/1/resume",
    "POST /api/v1/runs/1/extend",
    "POST /api/v1/runs/1/priority",
    "POST /api/v1/runs/1/compilations",
    *(
        f"GET /api/v1/runs/1/{part}"
        for part in (
            *(
                "trials",
                "curves",
                "scatter",
                "verdict",
                "errors",
                "tasks/1",
                "tasks/1/records/1",
                "tasks/1/records/1/code",
                "console",
                "compilations",
            ),
            *("records", "trials.csv", "trials.parquet", "console.log", "rounds", "rankings", "conditions", "untuned"),
        )
    ),
    *(f"POST /api/v1/streams/1/{part}" for part in ("trials", "end")),
    *(f"{method} /api/v1/templates/1" for method in ("GET", "PATCH", "DELETE")),
    *(f"POST /runs/new/templates/1/{act}/" for act in ("rename", "delete")),
    "GET /api/v1/compilations/1",
    *(
        f"GET /api/v1/compilations/1/{part}"
        for part in ("log", "console.log", "artifact", "manifest", "snippets", "bundle")
    ),
    "GET /api/v1/comparisons/1",
    "POST /api/v1/comparisons/1/cancel",
    "POST /api/v1/compilations/1/cancel",
    "POST /api/v1/compilations/1/benchmarks",
}
"""What is about one thing of a project: not found. Of each method and route, one line in one of these sets."""
OF_PROJECT_ITSELF = {
    "GET /admin/projects/1/",
    "POST /admin/projects/1/change/",
    "POST /admin/projects/1/members/",
    "POST /admin/projects/1/members/1/role/",
    "POST /admin/projects/1/members/1/remove/",
    "GET /api/v1/projects/1",
    "PATCH /api/v1/projects/1",
    "GET /api/v1/projects/1/members",
    "POST /api/v1/projects/1/members",
    "PATCH /api/v1/projects/1/members/1",
    "DELETE /api/v1/projects/1/members/1",
}
"""What is about a project and its members: not found, too."""
LISTS = {
    "GET /admin/projects/",
    "GET /api/v1/projects",
    *(f"GET {path}" for path in ("/", "/runs/", "/runs/new/", "/runs/new/tags/", "/compare/", "/networks/")),
    "GET /imports/new/",
    "GET /regressions/",
    "GET /regressions/new/",
    "GET /api/v1/regression-checks",
    *(f"GET {path}" for path in ("/networks/builtin/x/", "/library/", "/account/", "/api/v1/")),
    "GET /api/v1/docs",
    "GET /api/v1/openapi.json",
    "GET /api/v1/networks",
    "GET /api/v1/library",
    "GET /api/v1/runs",
    "GET /api/v1/templates",
    "GET /runs/new/templates/",
    "GET /api/v1/compare",
    "GET /api/v1/records",
    "GET /api/v1/records/library",
    "GET /api/v1/tokens",
    "GET /api/v1/tuneboard.py",
    "GET /networks/script/",
    "GET /networks/operators/",
    "GET /api/v1/networks/operators",
}
"""What shows things of the user's projects, or nothing of any."""
MACHINES = {
    *(f"GET /machines/{part}" for part in ("", "trackers/figures/")),
    *(f"GET /api/v1/{part}" for part in ("devices", "machines", "machines/1")),
}
"""Everybody sees that a machine is busy, but not with what."""
ASKING = {
    "POST /compare/measure/",
    "POST /runs/act/",
    "POST /runs/new/",
    "POST /runs/new/check/",
    "POST /runs/new/templates/save/",
    "POST /runs/notes/preview/",
    "POST /networks/builtin/x/",
    "POST /networks/builtin/x/check/",
    "POST /api/v1/networks",
    "POST /api/v1/imports",
    "POST /api/v1/comparisons",
    "POST /api/v1/extractions",
    "POST /api/v1/runs",
    "POST /api/v1/runs/actions",
    "POST /api/v1/runs/check",
    "POST /api/v1/runs/variants",
    "POST /api/v1/streams",
    "POST /api/v1/templates",
    "POST /networks/script/watch/",
    "POST /regressions/new/",
    "POST /api/v1/regression-checks",
}
"""What takes names or numbers in its body; there is a test for each that could name something of the other project."""
OF_SITE = {
    *(f"GET /admin/{part}" for part in ("audit/", "audit/entries.csv", "metrics/", "metrics/figures/", "people/")),
    "GET /admin/system/",
    "GET /admin/people/1/",
    *(f"POST /machines/x/{act}/" for act in ("drain", "resume", "measure", "forget")),
    *(f"POST /api/v1/machines/1/{act}" for act in ("drain", "resume", "measure", "forget")),
    "POST /admin/projects/create/",
    "POST /admin/projects/1/delete/",
    "POST /api/v1/projects",
    "DELETE /api/v1/projects/1",
    *(f"POST /admin/people/{part}/" for part in ("invite", "1/link", "1/role", "1/deactivate", "1/reactivate")),
    "GET /webhooks/",
    "POST /webhooks/test/",
    "POST /webhooks/1/again/",
    "GET /api/v1/audit",
    "GET /api/v1/people",
    "POST /api/v1/people",
    "PATCH /api/v1/people/1",
    *(f"POST /api/v1/people/1/{part}" for part in ("login-url", "deactivate", "reactivate")),
}
"""For admins of the site only."""
OWN_ACCOUNT = {
    *(f"POST /account/{part}/" for part in ("password", "tokens", "tokens/1/revoke", "sign-out")),
    "POST /api/v1/tokens",
    "DELETE /api/v1/tokens/1",
}
"""About the person's own account."""
PUBLIC = {
    *(f"{method} /{path}/" for path in ("sign-in", "login") for method in ("GET", "POST")),
    "GET /oidc/start/",
    "GET /oidc/callback/",
    "POST /sign-out/",
    "GET /metrics",
    "GET /healthz",
    "GET /badges/1.svg",
    "POST /",
}
"""What asks for no role: signing in, a redirect, and two that say nothing of runs or ask for a role themselves."""
SEARCHES = (
    *(
        f"/runs/?{query}"
        for query in ("q=veiled", "project=veiled", "network=veiled-net", "tag=veiled-tag", "tag=both")
    ),
    *(f"/runs/?{query}" for query in ("status=finished", "status=running", "show=archived", "show=deleted", "q=mlp")),
    *("/runs/?network=mlp", "/runs/?order=-name", "/compare/?runs=1,7", "/compare/?runs=1,2", "/compare/?runs=7,7"),
    *("/library/?q=fused", "/library/?network=veiled-net", "/library/?order=-runs", f"/library/{HASH}/"),
    *("/regressions/new/?run=1",),
    *("/runs/new/?template=1", "/runs/new/?project=veiled", "/runs/new/?network=veiled-net", "/networks/builtin/mlp/"),
    *(
        f"/api/v1/runs?{query}"
        for query in ("q=veiled", "project=veiled", "tag=both", "status=finished", "show=deleted")
    ),
    *("/api/v1/runs?limit=1", "/api/v1/compare?runs=1,7", "/api/v1/compare?runs=1,2", "/api/v1/records?runs=1,7"),
    *("/api/v1/library?q=fused", "/api/v1/library?limit=1", f"/api/v1/library/{HASH}"),
)
"""Lists with choices that find something of the other project for its members."""


@pytest.fixture(autouse=True)
def without_tvm(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inspected = Inspected([TensorInfo("x", [1], "float32")], 7, {"Conv": 2}, [])
    settings.VAR = tmp_path
    monkeypatch.setattr(inspection, "inspect", lambda *_: inspected)
    monkeypatch.setattr(targets, "resolve", lambda _: {"target": TARGET, "device": "cpu", "label": "znver4"})
    monkeypatch.setattr(targets, "tags", lambda: ["nvidia/nvidia-a100"])
    monkeypatch.setattr(operators, "operators", lambda: Operators([], ["add"]))
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)
    for made_by_tvm in ("show", "generate"):
        monkeypatch.setattr(showing, made_by_tvm, lambda _: showing.Applying("waiting"))


def member(name: str, project: Project, role: str = "operator") -> User:
    user = User.objects.create_user(name, password="correct horse")
    put_into_role(user, role, project)
    Person.saw(user)
    return user


def fill(project: Project, name: str, key: int, user: User, **values: Any) -> Run:
    """Something of each kind, whose key is `key`."""
    network = make_network(f"{name}-net", project=project, pk=key)
    network.file.parent.mkdir(parents=True, exist_ok=True)
    network.file.write_bytes(b"model")
    make_extraction(network, pk=key, created_by=user)
    common: dict[str, Any] = {
        "project": project,
        "created_by": user,
        "name": f"{name}-run",
        "notes": f"{name}-notes",
        "device": name,
    }
    run = measured_run([(1, 3e-3), (0, 2e-3), (1, None), (0, 1e-3)], pk=key, **(common | values))
    run.move("running", to="finished")
    write_record_files(run)
    (run.work_dir / "console.log").write_text(f"{name}-console\n")
    about = [{"name": f"{name}.json", "size": 1, "sha256": "0"}]
    Import.objects.create(pk=key, project=project, created_by=user, status="finished", files=about)
    change_tags(run, [f"{name}-tag", "both"])
    publish(make_compilation(run, pk=key, created_by=user))
    set_beside([run], pk=key, status="finished", created_by=user)
    make_result(make_check(run, pk=key, created_by=user, name=f"{name}-check"), pk=key)
    make_template(f"{name}-template", pk=key, project=project, saved_by=user)
    return run


def add_own() -> Project:
    """The stranger's project, after the first one, whose number is a high one where the database was flushed before."""
    Project.objects.all().delete()
    Project.objects.create(name="default", pk=1)
    return Project.objects.create(name="own", pk=OWN)


@pytest.fixture
def own() -> Project:
    """The stranger's project, which has the same tasks as the other one, and the numbers of a later time."""
    project = add_own()
    fill(project, "own", OWN, member("grace", project, "viewer"))
    return project


def add_veiled(device: str = "veiled-device") -> Run:
    """The other project, which keeps a device busy: finished, running, queued, archived and deleted runs, some of the same networks and tasks."""
    project = Project.objects.create(name="veiled", pk=VEILED + 100)
    owner = member("veiled-person", project)
    run = fill(project, "veiled", VEILED, owner)
    uploaded = Network.objects.get(pk=VEILED)
    builtin = Network.objects.create(name="mlp", fingerprint="veiled", options={"batch": 777})
    more: dict[str, Any] = {"project": project, "created_by": owner, "name": "veiled-more"}
    make_run(pk=2, network=uploaded, status="finished", pinned=True, **more)
    make_run(pk=3, network=builtin, device="busy", **more)
    make_run(pk=4, status="finished", archived=True, **more)
    make_run(pk=5, status="finished", deleted_at=run.created_at, **more)
    other_target = {"kind": "cuda", "mcpu": "veiled-cpu"}
    live = measured_run(pk=6, device=device, **more)
    Run.objects.filter(pk=live.pk).update(target=other_target, target_fingerprint="veiled-target")
    make_compilation(live, pk=6, status="queued", created_by=owner)
    Task.objects.filter(run=run, index=1).update(workload_hash="1")
    Delivery.objects.create(url="http://127.0.0.1:9/veiled", kind="test", message={"path": "/veiled"}, status="failed")
    ApiToken.issue(owner, name="veiled-token", project=project)
    return run


def in_session(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def by_token(user: User, project: Project | None) -> Client:
    text = ApiToken.issue(user, name="ci", project=project)
    return Client(headers={"authorization": f"Bearer {text}"})


STRANGERS: dict[str, Callable[[Project], Client]] = {
    "operator": lambda own: in_session(member("ada", own, "operator")),
    "admin of another project": lambda own: in_session(member("ada", own, "admin")),
    "admin's token of another project": lambda own: by_token(make_user("admin"), own),
}


@pytest.fixture(params=STRANGERS)
def stranger(request: Any, own: Project) -> Client:
    return STRANGERS[request.param](own)


def has_token(client: Client) -> bool:
    return "HTTP_AUTHORIZATION" in client.defaults or "authorization" in {key.lower() for key in client.headers or {}}


def ask(client: Client, name: str, number: int = VEILED) -> Any:
    method, path = name.split()
    return client.generic(method, re.sub(r"(?<=/)1(?=/|$)", str(number), path, count=1), "{}", "application/json")


def said(response: Any) -> str:
    """The answer without what is another one each time: a CSRF token, the times in a zip."""
    if response.headers.get("Content-Type") == "application/zip":
        return f"{response.status_code} {response.headers['ETag']}"
    body = b"".join(response.streaming_content) if response.streaming else response.content
    text = re.sub(r"\b[A-Za-z0-9]{64}\b", "a CSRF token", body.decode(errors="replace"))
    return f"{response.status_code} {response.headers.get('Location', '')} {text}"


def is_api(name: str) -> bool:
    return "/api/" in name


def every_route() -> set[str]:
    """Every operation, and each page with the methods that it takes. A GET of what takes a form leads back to its page."""
    admin = make_user("admin")
    pages = [path for path in every_path() if not path.startswith("/api/v1/")]
    posted = {f"POST {path}" for path in pages if in_session(admin).post(path).status_code != 405}
    shown = {f"GET {path}" for path in pages if in_session(admin).get(path).status_code not in (302, 405)}
    leading_on = {f"GET {path}" for path in ("/", "/compare/", "/sign-in/", "/login/", "/api/v1/")}
    of_api = {f"{method} {path}" for path, method in every_operation()}
    return posted | shown | leading_on | of_api | {"GET /api/v1/docs", "GET /api/v1/openapi.json"}


def test_it_knows_every_route() -> None:
    """A new route needs a line in one of these sets: who may learn what by it?"""
    known = [OF_PROJECT, OF_PROJECT_ITSELF, LISTS, MACHINES, ASKING, OF_SITE, OWN_ACCOUNT, PUBLIC]
    assert sum(map(len, known)) == len(set.union(*known))
    assert every_route() == set.union(*known)


def test_a_strangers_request_finds_nothing_of_the_project(stranger: Client) -> None:
    add_veiled()
    before = Run.everything.order_by("pk").values(), Compilation.objects.values(), Network.objects.values()
    then = [list(rows) for rows in before]
    for name in sorted(OF_PROJECT):
        if has_token(stranger) and not is_api(name):
            continue
        response = ask(stranger, name)
        viewing = name.startswith("GET")
        assert response.status_code == 404 or (not viewing and response.status_code == 403), f"{name}: {said(response)}"
        assert "veiled" not in said(response), name
        # As if it weren't there.
        assert said(response).replace("/1", "/99") == said(ask(stranger, name, 99)).replace("/1", "/99"), name
    assert [list(rows.all()) for rows in before] == then


def test_a_stranger_finds_neither_the_project_nor_its_members(stranger: Client) -> None:
    """Whoever manages no project isn't told more by a refusal, which comes for any number."""
    project = add_veiled().project_id
    then = list(Membership.objects.values())
    for name in sorted(OF_PROJECT_ITSELF):
        if has_token(stranger) and not is_api(name):
            continue
        response = ask(stranger, name, project)
        assert response.status_code in (403, 404), f"{name}: {said(response)}"
        assert "veiled" not in said(response), name
        assert said(response) == said(ask(stranger, name, 999)), name
    assert list(Membership.objects.values()) == then


def test_what_an_operator_may_not_touch_is_not_found_rather_than_forbidden(own: Project) -> None:
    add_veiled()
    client = in_session(member("ada", own, "admin"))
    for name in sorted(OF_PROJECT):
        assert ask(client, name).status_code == 404, name


def test_a_member_finds_all_of_it() -> None:
    """So the answers to strangers are about projects, and not about numbers that nothing has."""
    run = add_veiled()
    assert run.created_by is not None
    client = in_session(run.created_by)
    for name in sorted(OF_PROJECT):
        if name.startswith("GET"):
            assert ask(client, name).status_code < 400, f"{name}: {said(ask(client, name))}"


def test_nothing_changes_for_a_stranger_when_another_project_is_filled(stranger: Client) -> None:
    """Lists, searches, counts, choices and what is shown beside one's own."""
    names = [f"GET {path}" for path in SEARCHES] + sorted(LISTS)
    pages = [(name, VEILED) for name in names]
    pages += [(name, OWN) for name in sorted(OF_PROJECT) if name.startswith("GET") and "library" not in name]
    pages = [(name, key) for name, key in pages if is_api(name) or not has_token(stranger)]
    keep = {(name, key): said(ask(stranger, name, key)) for name, key in pages}
    add_veiled()
    for (name, key), before in keep.items():
        after = said(ask(stranger, name, key))
        assert after == before, f"{name} tells of another project"
    assert any("own-run" in text for text in keep.values())


def test_a_machine_is_busy_but_nobody_says_with_what(stranger: Client) -> None:
    add_veiled("cpu")
    machine = make_machine("1")
    Run.objects.filter(pk=6).update(machine=machine)
    assert [one["name"] for one in machines(None)["machines"][0]["work"]] == ["veiled-more"]
    for name in sorted(MACHINES):
        if is_api(name) or not has_token(stranger):
            text = said(ask(stranger, name))
            assert text.startswith("200"), name
            assert "veiled" not in text, name
    if not has_token(stranger):
        assert "a run of another project" in said(ask(stranger, "GET /machines/"))


def test_only_admins_of_the_site_see_what_is_about_all_of_it(stranger: Client) -> None:
    add_veiled()
    for name in sorted(OF_SITE):
        if is_api(name) or not has_token(stranger):
            response = ask(stranger, name)
            assert response.status_code == 403, name
            assert "veiled" not in said(response)
    assert ask(stranger, "GET /metrics").status_code == 401


def test_whoever_is_in_no_project_sees_nothing(client: Client) -> None:
    add_veiled()
    client.force_login(User.objects.create_user("nobody"))
    for name in sorted(OF_PROJECT | LISTS | MACHINES | ASKING | OF_SITE):
        if name == "GET /":
            continue
        response = ask(client, name)
        assert response.status_code == 403, f"{name}: {response.status_code}"
        assert "veiled" not in said(response), name


@pytest.mark.parametrize("role", ["operator", "admin"])
def test_a_token_stops_when_its_owner_leaves_the_project(own: Project, role: str) -> None:
    user = member("ada", own, role)
    put_into_role(user, role, Project.objects.default())
    client, all_of_hers = by_token(user, own), by_token(user, None)
    assert client.get("/api/v1/runs").json()["items"][0]["name"] == "own-run"
    Membership.objects.filter(project=own).delete()
    for name in sorted(OF_PROJECT | LISTS | ASKING):
        if is_api(name) and name != "GET /api/v1/":
            assert ask(client, name, OWN).status_code == 403, name
    assert all_of_hers.get("/api/v1/runs").json()["items"] == []


class TestWhatABodyNames:
    """Names and numbers of the other project, in what strangers send."""

    @pytest.fixture
    def client(self, own: Project) -> Client:
        add_veiled()
        return in_session(member("ada", own))

    @staticmethod
    def send(client: Client, path: str, **body: Any) -> Any:
        return client.post(path, json.dumps(body), "application/json")

    @pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/runs/check"])
    def test_a_launch_knows_neither_its_models_nor_its_name(self, client: Client, path: str) -> None:
        for field, veiled in (("network", "veiled-net"), ("project", "veiled")):
            order = {"network": "mlp", "trials": 8}
            fields, unknown = (
                self.send(client, path, **(order | {field: name})).json() for name in (veiled, "n" * len(veiled))
            )
            fields, unknown = fields.get("error", fields)["fields"], unknown.get("error", unknown)["fields"]
            assert field in fields
            assert fields[field].replace(veiled, "n" * len(veiled)) == unknown[field]
        assert not Run.objects.filter(created_by__username="ada").exists()

    def test_a_launch_continues_none_of_its_runs(self, client: Client) -> None:
        order = {"network": "mlp", "trials": 8}
        veiled, unknown = (
            self.send(client, "/api/v1/runs", **order, continues=number).json()["error"]["fields"]
            for number in (VEILED, 999)
        )
        assert veiled == {"continues": unknown["continues"].replace("999", str(VEILED))}
        page = client.post("/runs/new/", {"network": "mlp", "target": "this", "trials": 8, "continues": VEILED})
        assert "veiled-run" not in page.content.decode()
        assert client.get(f"/runs/new/?continues={VEILED}").status_code == 404

    def test_a_launch_knows_none_of_its_templates(self, client: Client) -> None:
        for path in ("/api/v1/runs", "/api/v1/runs/check", "/api/v1/runs/variants"):
            veiled, unknown = (self.send(client, path, template=name) for name in ("veiled-template", "v" * 15))
            assert veiled.status_code == unknown.status_code == 422
            assert veiled.json()["error"]["fields"]["template"].count("veiled") == 1
            there_are = [
                answer.json()["error"]["fields"]["template"].partition("There are") for answer in (veiled, unknown)
            ]
            assert there_are[0][2] == there_are[1][2] == ": own-template."

    def test_a_template_is_kept_in_none_of_its_projects(self, client: Client) -> None:
        for project in ("veiled", "nobody"):
            answer = self.send(client, "/api/v1/templates", template="mine", network="mlp", project=project)
            assert answer.json()["error"]["fields"].keys() == {"project"}
            given = {"network": "mlp", "target": "this", "trials": 8, "template_name": "mine", "project": project}
            assert client.post("/runs/new/templates/save/", given).status_code == 422
        assert not LaunchTemplate.objects.filter(name="mine").exists()

    def test_an_extraction_knows_neither(self, client: Client) -> None:
        for field, veiled in (("network", "veiled-net"), ("project", "veiled")):
            order = {"network": "own-net"} | {field: veiled}
            answer = self.send(client, "/api/v1/extractions", **order)
            assert answer.status_code == 422
            assert str(answer.json()).count("veiled") == 1
        assert Extraction.objects.count() == 2

    def test_its_runs_are_not_measured_side_by_side(self, client: Client) -> None:
        before = SideBySide.objects.count()
        known, unknown = (
            self.send(client, "/api/v1/comparisons", runs=[OWN, number]).json() for number in (VEILED, 999)
        )
        assert str(known).replace(f"run {VEILED}.", "run 999.") == str(unknown)
        page = client.post("/compare/measure/", {"runs": f"{OWN},{VEILED}"}, follow=True)
        assert f"There is no run {VEILED}." in page.content.decode()
        assert SideBySide.objects.count() == before

    def test_an_import_knows_neither_the_project_nor_its_networks(self, client: Client) -> None:
        def send(**more: str) -> Any:
            return client.post("/api/v1/imports", {"files": SimpleUploadedFile("a.json", b"{}"), **more})

        answer, unknown = send(project="veiled"), send(project="nobody")
        assert answer.status_code == 422
        assert (
            answer.json()["error"]["fields"]["project"].replace("veiled", "nobody")
            == (unknown.json()["error"]["fields"]["project"])
        )
        assert send(network="veiled-net").json()["project"] == "own"

    def test_the_form_knows_neither(self, client: Client) -> None:
        for field, veiled in (("network", "veiled-net"), ("project", "veiled")):
            page = client.post("/runs/new/", {"network": "mlp", "trials": 8, field: veiled})
            assert page.status_code == 422
            assert "veiled-run" not in page.content.decode()
            assert client.post("/runs/new/check/", {"network": "mlp", field: veiled}).json()["target"] is None
        assert not Run.objects.filter(created_by__username="ada").exists()

    @pytest.mark.parametrize(
        "action", ["pin", "unpin", "archive", "unarchive", "delete", "restore", "stop", "tag", "untag"]
    )
    def test_an_action_on_many_runs_passes_over_them(self, client: Client, action: str) -> None:
        keys = list(range(1, 7))
        then = list(Run.everything.filter(pk__in=keys).order_by("pk").values())
        answer = self.send(client, "/api/v1/runs/actions", action=action, runs=[*keys, 99], tags=["new"])
        outcome = answer.json()
        assert outcome["done"] == []
        assert len(set(outcome["refused"].values())) == 1
        page = client.post("/runs/act/", {"action": action, "runs": ",".join(map(str, keys)), "tags": "new"})
        assert "veiled" not in page.content.decode()
        assert list(Run.everything.filter(pk__in=keys).order_by("pk").values()) == then
        assert set(Run.everything.get(pk=VEILED).tags.values_list("name", flat=True)) == {"veiled-tag", "both"}

    def test_a_model_that_the_other_project_has_is_new(self, client: Client) -> None:
        veiled = Project.objects.get(name="veiled")
        theirs = in_session(member("eve", veiled))
        for project in (theirs, client):
            answer = project.post("/api/v1/networks", {"file": SimpleUploadedFile("a.onnx", b"model"), "name": "a"})
            assert answer.status_code == 201, answer.content
        first, second = Network.objects.filter(name="a").order_by("pk")
        assert (first.project, second.project.name if second.project else None) == (veiled, "own")
        assert first.file == second.file
        admin = in_session(make_user("admin"))
        assert admin.delete(f"/api/v1/networks/{second.pk}").status_code == 204
        assert first.file.exists(), "the other project still has this file"
        assert theirs.get(f"/api/v1/networks/{first.pk}").status_code == 200

    def test_a_regression_check_of_the_other_projects_run_is_refused(self, client: Client) -> None:
        answer = self.send(client, "/api/v1/regression-checks", run=VEILED, name="nightly")
        assert answer.status_code == 422
        assert "veiled" not in said(answer)
        unknown = self.send(client, "/api/v1/regression-checks", run=999, name="nightly")
        assert said(answer).replace(f"run {VEILED} ", "run 999 ") == said(unknown)

    def test_a_float_model_of_the_other_project_is_refused(self, client: Client) -> None:
        Network.objects.filter(pk__in=(OWN, VEILED)).update(kind=Network.Kind.ONNX)
        Network.objects.filter(pk=OWN).update(operators={"DequantizeLinear": 1})
        for number in (VEILED, 999):
            answer = client.patch(f"/api/v1/networks/{OWN}", json.dumps({"float_model": number}), "application/json")
            assert answer.status_code == 422
            assert answer.json()["error"]["fields"] == {"float_model": "The project has no such network."}
            page = client.post(f"/networks/{OWN}/float/", {"float_model": str(number)}, follow=True)
            assert "The project has no such network." in page.content.decode()
            assert "veiled" not in page.content.decode()
        assert Network.objects.get(pk=OWN).float_model is None

    def test_a_result_of_another_projects_check_is_no_base(self, client: Client) -> None:
        for number in (VEILED, 999):
            path = f"/api/v1/regression-checks/{OWN}"
            answer = client.patch(path, json.dumps({"base": number}), "application/json")
            assert answer.status_code == 422
            expected = f"{number} is no result of this check with a latency and its noise."
            assert answer.json()["error"]["fields"] == {"base": expected}
            page = client.post(f"/regressions/{OWN}/set/", {"base": str(number)}, follow=True)
            assert "veiled" not in page.content.decode()

    def test_a_stream_joins_none_of_its_runs(self, client: Client) -> None:
        def begin(user: Client, **more: str) -> Any:
            opening = {"stream": "nightly", "session": "a", "engine": "autotvm", "target": TARGET, **more}
            return self.send(user, "/api/v1/streams", **opening)

        theirs = begin(in_session(member("eve", Project.objects.get(name="veiled")))).json()["run"]
        ours = begin(client, network="veiled-net").json()["run"]
        assert ours != theirs
        run = Run.objects.select_related("project", "network__project").get(pk=ours)
        assert run.project.name == "own"
        assert run.network
        assert run.network.pk != VEILED
        assert begin(client, project="veiled").status_code == 422
        for path in ("trials", "end"):
            veiled, unknown = (
                self.send(client, f"/api/v1/streams/{key}/{path}", session="a", trials=[]) for key in (theirs, 99_999)
            )
            assert veiled.status_code == unknown.status_code == 404
            assert said(veiled).replace(str(theirs), "99999") == said(unknown)

    def test_an_upload_into_the_other_project_is_refused(self, client: Client) -> None:
        file = SimpleUploadedFile("a.onnx", b"model")
        answer = client.post("/api/v1/networks", {"file": file, "project": "veiled"})
        assert answer.status_code == 422
        assert not Network.objects.filter(file_name="a.onnx").exists()

    def test_a_token_can_not_be_for_the_other_project(self, client: Client) -> None:
        answer = self.send(client, "/api/v1/tokens", name="ci", scope="read", project="veiled")
        assert answer.json()["error"]["fields"] == {"project": "Must be one of these projects, or be left out: own."}
        assert client.post("/account/tokens/", {"name": "ci", "scope": "read", "project": "veiled"}).status_code == 422
        assert not User.objects.get(username="ada").api_tokens.exists()

    def test_runs_that_others_pinned_leave_room(self, client: Client) -> None:
        Run.objects.exclude(project__name="own").update(archived=False, pinned=True)
        for key in range(20, 45):
            make_run(pk=key, project=Project.objects.get(name="veiled"), status="finished", pinned=True)
        assert self.send(client, "/api/v1/runs/actions", action="pin", runs=[OWN]).json()["done"] == [OWN]


def test_runs_and_libraries_begin_with_records_of_their_own_project(own: Project) -> None:
    veiled = add_veiled()
    for project, run in ((own, OWN), (veiled.project, VEILED)):
        found = warm_start(make_run(project=project), task_infos())
        assert {record.run for record in found.records} == {run}
    Record.objects.filter(task__run=OWN).delete()
    Run.everything.update(versions={"apache-tvm": tvm()})
    assert warm_start(make_run(project=own), task_infos()).records == []
    assert not is_known(Run.objects.get(pk=OWN))
    assert is_known(Run.objects.get(pk=VEILED))


def test_an_etag_of_a_member_opens_nothing(own: Project) -> None:
    run = add_veiled()
    assert run.created_by is not None
    theirs, client = in_session(run.created_by), in_session(member("ada", own))
    for part in ("curves", "scatter", "records", "trials.csv"):
        tag = theirs.get(f"/api/v1/runs/1/{part}").headers["ETag"]
        assert theirs.get(f"/api/v1/runs/1/{part}", headers={"if-none-match": tag}).status_code == 304
        assert client.get(f"/api/v1/runs/1/{part}", headers={"if-none-match": tag}).status_code == 404


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("route", [str(entry.pattern) for entry in sockets if str(entry.pattern)])
async def test_no_socket_shows_it(route: str) -> None:
    path = filled(f"/{route}")

    def world() -> tuple[Client, Client, Client]:
        own = add_own()
        run = add_veiled()
        assert run.created_by is not None
        return (
            in_session(member("ada", own)),
            in_session(User.objects.create_user("nobody")),
            in_session(run.created_by),
        )

    stranger, nobody, insider = await sync_to_async(world)()
    socket = Socket(stranger, path)
    await socket.connect()
    assert await socket.closing_code() == NO_SUCH_RUN
    assert not await Socket(nobody, path).connect()
    socket = Socket(insider, path)
    assert await socket.connect()
    assert (await socket.read())["type"] == "state"
    await socket.close()
