"""Every change that somebody can ask for leaves an entry in the audit log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from dashboard.accounts import one_time_login_url
from dashboard.models import ApiToken
from tests.test_anonymous import UNSAFE, every_operation, every_path
from tests.world import (
    TARGET,
    make_check,
    make_compilation,
    make_machine,
    make_network,
    make_roofline,
    make_run,
    make_user,
    measured_run,
    publish,
    set_beside,
)
from tuning.actions import curation, members, projects
from tuning.actions.launches import templates
from tuning.engines.wire.inspecting import Inspected
from tuning.engines.wire.protocol import NetworkSpec, TensorInfo
from tuning.host import targets
from tuning.models import AuditEntry, Delivery, Import, LaunchTemplate, Network, Project, Run
from tuning.queue import jobs
from tuning.streams import receiving
from tuning.work import inspection

pytestmark = pytest.mark.django_db
NOTHING_CHANGES = {
    "POST /api/v1/runs/check": "says what a launch would do",
    "POST /runs/new/check/": "says what a launch would do",
    "POST /runs/notes/preview/": "renders text",
    "POST /networks/1/check/": "says what an extraction would do",
    "POST /networks/builtin/x/check/": "says what an extraction would do",
    "POST /api/v1/streams/1/trials": "is one of many in a stream, which has an entry for its beginning and its end",
}
"""Routes that need no entry."""
Body = dict[str, Any]
OPENING: Body = {"stream": "mine", "session": "s", "engine": "autotvm", "target": "llvm"}
NEW_PASSWORD: Body = {
    "old_password": "correct horse",
    "new_password1": "a battery staple",
    "new_password2": "a battery staple",
}


def ended(**values: Any) -> Run:
    run = measured_run(**values)
    run.move("running", to="stopped")
    return run


def compiled(**values: Any) -> int:
    made = make_compilation(ended(), **values)
    publish(made)
    return int(made.pk)


def two() -> list[int]:
    return [ended().pk, ended().pk]


def beside() -> int:
    return int(set_beside([ended(), ended()]).pk)


def uploaded() -> int:
    return int(make_network(f"net-{Network.objects.count()}").pk)


def quantized() -> int:
    floats = Network.objects.get(pk=uploaded())
    name = f"int8-{floats.pk}"
    return int(make_network(name, operators={"DequantizeLinear": 1}, float_model=floats).pk)


def given_up() -> int:
    made = Delivery.objects.create(url="http://127.0.0.1:9/secret", kind="test", message={"path": "/"}, status="failed")
    return int(made.pk)


def deleted() -> int:
    run = ended()
    curation.delete(run)
    return int(run.pk)


def other() -> int:
    return int(make_user("operator").pk)


def token() -> int:
    """A token of the admin's own."""
    return int(ApiToken.make(User.objects.get(username="a-admin"))[0].pk)


def project() -> int:
    return int(projects.create(f"project {Project.objects.count()}").pk)


def member() -> tuple[int, int]:
    """A project and a person who is its member."""
    key = project()
    return key, members.add(Project.objects.get(pk=key), make_user("viewer").username, "viewer").user_id


def somebody() -> Body:
    return {"name": make_user("viewer").username, "role": "operator"}


def streamed() -> int:
    return receiving.begin(OPENING, None)["run"]


def watchable() -> Body:
    record = {
        "input": ["llvm", "dense", [["TENSOR", [1, 8], "float32"]], {}],
        "config": {"index": 0, "code_hash": None, "entity": []},
    }
    folder = Path(settings.VAR)
    (folder / "log.json").write_text(json.dumps(record | {"result": [[1e-3], 0, 0.5, 1e9], "version": 0.2}) + "\n")
    settings.WATCH_FOLDERS = [str(folder)]
    return {"path": str(folder / "log.json")}


def bulk() -> Body:
    return {"action": "pin", "runs": [ended().pk, ended().pk]}


def model() -> Body:
    return {"file": SimpleUploadedFile("a.onnx", b"model")}


def queued_import() -> int:
    return int(Import.objects.create(project=Project.objects.default()).pk)


def log() -> Body:
    return {"files": SimpleUploadedFile("a.json", b"{}")}


def check() -> int:
    return int(make_check().pk)


def new_check() -> Body:
    made = make_check()
    return {"run": made.like_id, "name": "another one", "at": "02:15"}


def machine() -> str:
    return make_machine("lab-2").name


def known_machine() -> str:
    return make_roofline(make_machine("lab-2")).machine.name


def drained() -> str:
    return make_machine("lab-2", draining_at=timezone.now()).name


def template() -> int:
    made, _new = templates.save({"template": f"template {LaunchTemplate.objects.count()}", "network": "mlp"}, None)
    return int(made.pk)


API: dict[str, tuple[Callable[[], Any], Body | Callable[[], Body], str]] = {
    "POST /api/v1/networks": (lambda: 0, model, "network.upload"),
    "PATCH /api/v1/networks/1": (quantized, {"float_model": None}, "network.float_model"),
    "DELETE /api/v1/networks/1": (uploaded, {}, "network.delete"),
    "POST /api/v1/imports": (lambda: 0, log, "import.start"),
    "POST /api/v1/imports/1/cancel": (queued_import, {}, "import.cancel"),
    "POST /api/v1/extractions": (lambda: 0, {"network": "mlp"}, "network.extract"),
    "POST /api/v1/runs": (lambda: 0, {"network": "mlp", "trials": 8}, "run.launch"),
    "POST /api/v1/runs/variants": (
        lambda: 0,
        {"network": "mlp", "trials": 8, "variants": {"seed": [1, 2]}},
        "run.launch",
    ),
    "POST /api/v1/templates": (lambda: 0, {"template": "quick", "network": "mlp"}, "template.create"),
    "PATCH /api/v1/templates/1": (template, {"name": "quick"}, "template.rename"),
    "DELETE /api/v1/templates/1": (template, {}, "template.delete"),
    "POST /api/v1/runs/actions": (lambda: 0, bulk, "run.pin"),
    "PATCH /api/v1/runs/1": (lambda: ended().pk, {"revision": 1, "name": "new"}, "run.edit"),
    "DELETE /api/v1/runs/1": (lambda: ended().pk, {}, "run.delete"),
    "POST /api/v1/runs/1/restore": (deleted, {}, "run.restore"),
    "PATCH /api/v1/runs/1/marks": (lambda: ended().pk, {"add_tags": ["a"]}, "run.tag"),
    "POST /api/v1/runs/1/stop": (lambda: make_run().pk, {}, "run.stop"),
    "POST /api/v1/runs/1/resume": (lambda: ended().pk, {}, "run.resume"),
    "POST /api/v1/runs/1/priority": (lambda: make_run().pk, {"priority": "low"}, "run.prioritize"),
    "POST /api/v1/runs/1/extend": (lambda: ended().pk, {"trials": 8}, "run.extend"),
    "POST /api/v1/runs/1/compilations": (lambda: ended().pk, {"source": "run"}, "run.compile"),
    "POST /api/v1/compilations/1/cancel": (lambda: compiled(status="running"), {}, "compilation.cancel"),
    "POST /api/v1/compilations/1/benchmarks": (compiled, {}, "compilation.benchmark"),
    "POST /api/v1/comparisons": (lambda: 0, lambda: {"runs": two()}, "side_by_side.start"),
    "POST /api/v1/comparisons/1/cancel": (beside, {}, "side_by_side.cancel"),
    "POST /api/v1/regression-checks": (lambda: 0, new_check, "check.create"),
    "PATCH /api/v1/regression-checks/1": (check, {"paused": True}, "check.change"),
    "DELETE /api/v1/regression-checks/1": (check, {}, "check.delete"),
    "POST /api/v1/regression-checks/1/results": (check, {}, "check.run"),
    "POST /api/v1/regression-checks/1/badge": (check, {}, "check.renew_badge"),
    "POST /api/v1/streams": (lambda: 0, OPENING, "stream.start"),
    "POST /api/v1/streams/1/end": (streamed, {"session": "s"}, "stream.end"),
    "POST /api/v1/people": (lambda: 0, {"name": "ada", "role": "viewer"}, "person.create"),
    "POST /api/v1/people/1/login-url": (other, {}, "person.login_url"),
    "PATCH /api/v1/people/1": (other, {"role": "viewer"}, "person.role"),
    "POST /api/v1/people/1/deactivate": (other, {}, "person.deactivate"),
    "POST /api/v1/people/1/reactivate": (other, {}, "person.reactivate"),
    "POST /api/v1/projects": (lambda: 0, {"name": "vision"}, "project.create"),
    "PATCH /api/v1/projects/1": (project, {"name": "vision", "shared": True}, "project.share"),
    "DELETE /api/v1/projects/1": (project, {}, "project.delete"),
    "POST /api/v1/projects/1/members": (project, somebody, "member.add"),
    "PATCH /api/v1/projects/1/members/1": (member, {"role": "admin"}, "member.role"),
    "DELETE /api/v1/projects/1/members/1": (member, {}, "member.remove"),
    "POST /api/v1/tokens": (lambda: 0, {"name": "ci", "scope": "read"}, "token.create"),
    "DELETE /api/v1/tokens/1": (token, {}, "token.revoke"),
    "POST /api/v1/machines/1/drain": (machine, {}, "machine.drain"),
    "POST /api/v1/machines/1/resume": (drained, {}, "machine.resume"),
    "POST /api/v1/machines/1/measure": (known_machine, {}, "machine.measure_again"),
    "POST /api/v1/machines/1/forget": (drained, {}, "machine.forget"),
}
"""By operation: what makes its object and returns the object's id, the body, and the action that is recorded."""
PAGES: dict[str, tuple[Callable[[], Any], Body | Callable[[], Body], str]] = {
    "/runs/act/": (lambda: 0, lambda: {"action": "archive", "runs": ended().pk}, "run.archive"),
    "/runs/new/": (lambda: 0, {"network": "mlp", "target": "this", "trials": 8}, "run.launch"),
    "/runs/new/templates/save/": (
        lambda: 0,
        {"network": "mlp", "target": "this", "trials": 8, "template_name": "quick"},
        "template.create",
    ),
    "/runs/new/templates/1/rename/": (template, {"name": "quick"}, "template.rename"),
    "/runs/new/templates/1/delete/": (template, {}, "template.delete"),
    "/runs/1/marks/": (lambda: ended().pk, {"action": "delete"}, "run.delete"),
    "/runs/1/stop/": (lambda: make_run().pk, {}, "run.stop"),
    "/runs/1/resume/": (lambda: ended().pk, {}, "run.resume"),
    "/runs/1/extend/": (lambda: ended().pk, {"trials": 8}, "run.extend"),
    "/runs/1/priority/": (lambda: make_run().pk, {"priority": "low"}, "run.prioritize"),
    "/runs/1/compile/": (lambda: ended().pk, {"source": "run"}, "run.compile"),
    "/imports/1/cancel/": (queued_import, {}, "import.cancel"),
    "/networks/script/watch/": (lambda: 0, watchable, "run.watch"),
    "/compilations/1/cancel/": (lambda: compiled(status="running"), {}, "compilation.cancel"),
    "/compilations/1/benchmark/": (compiled, {}, "compilation.benchmark"),
    "/compare/measure/": (lambda: 0, lambda: {"runs": ",".join(map(str, two()))}, "side_by_side.start"),
    "/comparisons/1/cancel/": (beside, {}, "side_by_side.cancel"),
    "/networks/builtin/x/": (lambda: "mlp", {"target": "this"}, "network.extract"),
    "/networks/1/extract/": (uploaded, {"target": "this"}, "network.extract"),
    "/networks/1/float/": (quantized, {"float_model": ""}, "network.float_model"),
    "/networks/1/delete/": (uploaded, {}, "network.delete"),
    "/regressions/new/": (lambda: 0, new_check, "check.create"),
    "/regressions/1/edit/": (
        check,
        {"name": "weekly", "how": "compile", "every": "week", "at": "03:00"},
        "check.change",
    ),
    "/regressions/1/set/": (check, {"paused": "true"}, "check.change"),
    "/regressions/1/run/": (check, {}, "check.run"),
    "/regressions/1/badge/": (check, {}, "check.renew_badge"),
    "/regressions/1/delete/": (check, {}, "check.delete"),
    "/webhooks/test/": (lambda: 0, {}, "webhook.test"),
    "/webhooks/1/again/": (given_up, {}, "webhook.send_again"),
    "/admin/people/invite/": (lambda: 0, {"name": "ada", "role": "viewer"}, "person.create"),
    "/admin/people/1/link/": (other, {}, "person.login_url"),
    "/admin/people/1/role/": (other, {"role": "viewer"}, "person.role"),
    "/admin/people/1/deactivate/": (other, {}, "person.deactivate"),
    "/admin/people/1/reactivate/": (other, {}, "person.reactivate"),
    "/admin/projects/create/": (lambda: 0, {"name": "vision"}, "project.create"),
    "/admin/projects/1/change/": (project, {"name": "vision"}, "project.rename"),
    "/admin/projects/1/delete/": (project, {}, "project.delete"),
    "/admin/projects/1/members/": (project, somebody, "member.add"),
    "/admin/projects/1/members/1/role/": (member, {"role": "admin"}, "member.role"),
    "/admin/projects/1/members/1/remove/": (member, {}, "member.remove"),
    "/account/password/": (lambda: 0, NEW_PASSWORD, "person.password"),
    "/account/tokens/": (lambda: 0, {"name": "ci", "scope": "read"}, "token.create"),
    "/account/tokens/1/revoke/": (token, {}, "token.revoke"),
    "/account/sign-out/": (lambda: 0, {}, "person.sign_out_everywhere"),
    "/sign-in/": (lambda: 0, {"username": "a-admin", "password": "correct horse"}, "person.sign_in"),
    "/sign-out/": (lambda: 0, {}, "person.sign_out"),
    "/machines/x/drain/": (machine, {}, "machine.drain"),
    "/machines/x/resume/": (drained, {}, "machine.resume"),
    "/machines/x/measure/": (known_machine, {}, "machine.measure_again"),
    "/machines/x/forget/": (drained, {}, "machine.forget"),
    "/login/": (lambda: 0, {}, "person.sign_in"),
}


@pytest.fixture(autouse=True)
def without_tvm(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def inspect(_network: NetworkSpec, *_: Any) -> Inspected:
        return Inspected([TensorInfo("x", [1], "float32")], 7, {"Conv": 2}, [])

    settings.VAR = tmp_path
    settings.WATCH_FOLDERS = []
    settings.WEBHOOKS = ["http://127.0.0.1:9/secret"]
    monkeypatch.setattr(inspection, "inspect", inspect)
    monkeypatch.setattr(targets, "resolve", lambda _: {"target": TARGET, "device": "cpu", "label": "znver4"})
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


def placed(path: str, key: Any) -> str:
    """The path with its object's id, the ids of an object and a part of it, or the name of a network."""
    keys = iter(key if isinstance(key, tuple) else (key,))
    return re.sub(r"/(1|x)(?=/|$)", lambda _: f"/{next(keys)}", path)


def by(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def made(body: Body | Callable[[], Body]) -> Body:
    return body if isinstance(body, dict) else body()


def recorded() -> list[str]:
    return list(AuditEntry.objects.filter(refused=False).values_list("action", flat=True))


def test_it_knows_every_operation_that_changes_something() -> None:
    unsafe = {f"{method} {path}" for path, method in every_operation() if method in UNSAFE}
    assert unsafe == {*API, *(name for name in NOTHING_CHANGES if "/api/" in name)}


def test_it_knows_every_page_that_changes_something() -> None:
    """A page that takes no POST answers 405, or is a redirect."""
    admin = make_user("admin")
    harmless = {"/"} | {name.partition(" ")[2] for name in NOTHING_CHANGES}
    paths = [path for path in every_path() if not path.startswith("/api/") and path not in harmless]
    assert {path for path in paths if by(admin).post(path).status_code != 405} == PAGES.keys()


@pytest.mark.parametrize("operation", API)
def test_an_operation_leaves_an_entry(operation: str) -> None:
    prepare, body, action = API[operation]
    method, path = operation.split()
    client = by(make_user("admin"))
    path, given = placed(path, prepare()), made(body)
    AuditEntry.objects.expire(timezone.now() + timedelta(days=1), 100)
    if given.keys() & {"file", "files"}:
        response = client.post(path, given)
    else:
        response = client.generic(method, path, json.dumps(given), "application/json")
    assert response.status_code < 300, response.content
    assert action in recorded()
    assert {entry.actor for entry in AuditEntry.objects.all()} == {"a-admin"}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_leaves_an_entry(path: str) -> None:
    prepare, body, action = PAGES[path]
    admin, client = make_user("admin"), Client()
    place, given = placed(path, prepare()), made(body)
    if path == "/login/":
        place = one_time_login_url(admin, "http://testserver")
    elif path != "/sign-in/":
        client.force_login(admin)
    AuditEntry.objects.expire(timezone.now() + timedelta(days=1), 100)
    response = client.post(place, given)
    assert response.status_code in (201, 302) or path in ("/runs/act/", "/runs/1/marks/"), response.content
    assert action in recorded()
    assert {entry.actor for entry in AuditEntry.objects.all()} == {"a-admin"}


def test_the_download_of_a_library_leaves_an_entry_but_being_told_that_one_has_it_does_not() -> None:
    key = compiled()
    client = by(make_user("admin"))
    path = f"/api/v1/compilations/{key}/artifact"
    client.head(path)
    assert "compilation.download" not in recorded()
    first = client.get(path)
    client.get(path, headers={"if-none-match": first.headers["ETag"]})
    assert recorded().count("compilation.download") == 1


@pytest.mark.parametrize("name", NOTHING_CHANGES)
def test_what_only_reads_leaves_none(name: str) -> None:
    method, path = name.split()
    client = by(make_user("admin"))
    before = AuditEntry.objects.count()
    client.generic(method, path, "{}", "application/json")
    client.get("/runs/")
    assert AuditEntry.objects.count() == before
