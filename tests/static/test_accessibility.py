"""Accessibility of every page: audited by axe in light and dark, and measured at 360 px."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import URLPattern
from playwright.sync_api import Page, ViewportSize, expect

from dashboard.urls import urlpatterns
from tests.live import LiveSite, free_port
from tests.sites import SiteMaker

pytestmark = pytest.mark.browser
LONG_MS = 60_000
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 740}
TAP_PX = 40
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "resultTypes": ["violations"],
}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
COLORS = {
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
    "resultTypes": ["violations"],
}
"""The rules whose result depends on the theme."""
HOOK = "http://127.0.0.1:9/hooks/a-channel-with-a-long-name/and-a-key-of-many-characters-0123456789"
SEED = """
import datetime, json
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from dashboard.models import ApiToken
from dashboard.people import managing
from tests.heartbeats import keep_alive
from tuning.actions import members, projects
from tests.world import *
from tuning.models import AuditEntry, BadLine, Benchmark, Delivery, Import, PoolMember, Record, Run, TrackerSample
from tuning.reads.showing import SHOWING, Decision, Shown, _keep, _key
from tuning.work.synthetic import seed_run
trials = [(0, 2e-3), (1, 3e-3), (0, None), (0, 1e-3), (1, 2.5e-3)] + [(0, None)] * 16
ApiToken.issue(User.objects.get(), name="a token with a rather long name that somebody gave to it")
for name in ("grace", "a.person.with-a-name-that-is-rather-long"):
    make_user("operator", name)
managing.deactivate(make_user("viewer", "gone"))
vision = projects.create("a project with a name that is as long as a name may ever be")
members.add(vision, "a.person.with-a-name-that-is-rather-long", "viewer")
members.add(vision, "grace", "admin")
measured_run(device="of-vision", project=vision)
live = measured_run(trials, device="elsewhere", trials_budget=640)
Run.objects.filter(pk=live.pk).update(phase="measuring", phase_task=1, versions={"apache-tvm": "0.27.0.post1"})
keep_alive(live)
first, second = (measured_run(trials, device=f"board-{seed}", options={"seed": seed}) for seed in (1, 2))
make_course(first)
notes = "# Why\\n\\nSee [run 1](/runs/1/).\\n\\n```python\\nx = T.float32(1.5)\\nprint(None, 'text')\\n```\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n"
Run.objects.filter(pk=first.pk).update(notes=notes)
Run.objects.filter(pk__in=(first.pk, second.pk)).update(status="finished", finished_at=timezone.now(), finish_reason="budget")
make_run(status="failed", name="a run that failed", error="All trials failed.\\nRuntimeError: boom")
rounds = [1e-3, 1.1e-3, 0.9e-3, 1e-3, 1e-3]
measured_beside([first, second, live], {(place, index): [] if place == index == 1 else rounds for place in range(3) for index in (0, 1)})
pooled = make_run(name="one that waits", device="elsewhere", machines_wanted=0)
synthetic = seed_run(3000, 40)
tried = [dict(run=first.pk, trial=trial, latency_s=1e-3, inside_s=trial * 1e-3) for trial in (5, 3)]
inside = dict(functions=[dict(function="fused_matmul0", calls=2, tried=tried, chosen=1)], kept=True,
    rounds=dict(best=[20e-3], chosen=[18e-3]))
made = make_compilation(first, estimate_s=None, chosen=inside)
publish(made)
Benchmark.objects.create(compilation=made, rounds={"tuned": [4e-3], "untuned": [80e-3]}, onnxruntime="1.23.2", without_onnxruntime="")
built = dict.fromkeys(("verified", "max_abs_error", "max_rel_error", "tolerance", "finished_at", "sha256", "size"))
building = make_compilation(second, **built, status="running", stage="build", phase="linking", progress=0.4, lease="x",
    used=[], untuned=[])
keep_alive(building)
broken = make_compilation(second, **built, status="failed", stage="build", error="lld: error\\nundefined symbol", used=[], untuned=[])
network = make_network("a-model-of-ones-own", dims={"batch": 1})
lost = make_extraction(network, status="failed", error="Operators that TVM doesn't know: Foo.", target={"kind": "cuda"})
make_extraction(network)
for record in Record.objects.all():
    chosen = str(record.trial)
    decision = Decision(instruction="l1", of="i", block="matmul", extent=64, decision=[8, 8], choice=chosen, among=["1", "2"])
    code = f"# from tvm import tir\\n@T.prim_func\\ndef main(a: T.handle):\\n    x = T.float32({chosen}.5)\\n    print(None, 'text', True)\\n"
    _keep(_key(SHOWING, record.text), Shown(code=code, decisions=[decision], tensorir=code, packs=True))
for minutes in range(20):
    queues = {"pi": {"key": "pi", "total": 2, "free": minutes % 3, "pending": 1}}
    TrackerSample.objects.create(tracker="lab", at=timezone.now() - datetime.timedelta(minutes=minutes), queues=queues)
for status, answer in (("sent", "204"), ("failed", "500 Internal Server Error"), ("waiting", "Connection refused")):
    message = {"id": first.pk, "path": f"/runs/{first.pk}/"}
    Delivery.objects.create(url=settings.WEBHOOKS[0], kind="run.finished", message=message, status=status, attempts=3, answer=answer,
        due_at=timezone.now() + datetime.timedelta(days=1))
for number in range(60):
    AuditEntry.objects.create(actor="a-person-with-a-long-name", via="api", token="token 3", address="2001:db8::1", action="run.edit",
        object_kind="run", object_id=1, object_name="n" * 200,
        details={"name": {"from": "a" * 200, "to": "b"}}, refused=number % 2 == 1, reason="It ended." * (number % 2))
check = make_check(first, name="a regression check whose name is rather long", state="regression")
for hours, (verdict, slower) in enumerate([("first", 0), ("within noise", 0.01), ("failed", None), ("skipped", None), ("regression", 0.2)]):
    at = timezone.now() - datetime.timedelta(hours=5 - hours)
    more = {} if slower is None else {"base_s": 10e-3, "change": slower, "noise": 0.02, "machine": "lab-2"}
    make_result(check, None if slower is None else 10e-3 * (1 + slower), verdict=verdict, begun_at=at, ended_at=at,
        error="Compilation 7 is failed: lld: undefined symbol" if slower is None else None, run=first, compilation=made, **more)
load = {"cpus": 8, "ours_cores": 2.0, "others_cores": 4.0, "memory_free": 2**32, "disk_free": 2**40, "disk_total": 2**41}
far = timezone.now() + datetime.timedelta(days=1)
make_machine("a" * 63, load=load, heartbeat_at=far, versions={"tuneboard": "0.0.1"})
busy = make_machine("lab-2", load=load, heartbeat_at=far, cpu="cortex-a72", devices=["cpu", "cuda:0"])
Run.objects.filter(pk=live.pk).update(machine=busy)
make_machine("lab-3", load=load, heartbeat_at=timezone.now() - datetime.timedelta(hours=1))
states = {"left_out": "It differs by 12.0 %.", "lost": "It stopped responding.", "checking": "", "measuring": ""}
for number in range(24):
    state, reason = list(states.items())[number % 4]
    member = make_machine(f"pool-{number}", heartbeat_at=far)
    PoolMember.objects.create(run=pooled, machine=member, device=f"cuda:{number}", pool="p", state=state, reason=reason, trials=3, differs=0.02)
default = {"project": vision, "files": [{"name": "a/rather/long/name/of/a/log/file.json", "size": 5, "sha256": "0"}], "bytes_total": 5}
imported = Import.objects.create(**default, status="finished", lines=4, records=3, bad_lines=1, results=[
    {"log": "a/rather/long/name/of/a/log/file.json", "engine": "autotvm", "run": second.pk, "known": True}],
    skipped=[{"file": "x.log", "reason": "it is binary, and no log of a known format"}],
    remarks=[{"file": "a.json", "line": 3, "text": "version v0.9 is unknown; read as v0.6"}])
BadLine.objects.create(imported_by=imported, file="a/rather/long/name/of/a/log/file.json", line=2, reason="it is torn")
importing = Import.objects.create(**default, status="running", bytes_read=3, lease="x", heartbeat_at=timezone.now())
keep_alive(importing)
with transaction.atomic():  # The site's sweep deletes what an import has left unfinished.
    foreign = measured_run(trials, device="", origin="imported", network=None, trials_budget=None, bad_lines=3)
    Run.objects.filter(pk=foreign.pk).update(status="finished", elapsed_s=None, sessions=[
    {"trial": number, "started_at": None, "tvm": None} for number in (1, 4)])
make_template("a template with a name that is as long as a name may ever be")
kept = make_template("nightly")
best = [record.trial for record in first.tasks.get(index=0).records.all()]
print(json.dumps({"live": live.pk, "run": first.pk, "other": second.pk, "synthetic": synthetic.pk, "compilation": made.pk,
    "building": building.pk, "broken": broken.pk, "network": network.pk, "lost": lost.pk, "best": best[0], "next": best[1],
    "imported": imported.pk, "importing": importing.pk, "foreign": foreign.pk, "pooled": pooled.pk, "check": check.pk, "template": kept.pk,
    "project": vision.pk, "person": User.objects.get(username="grace").pk}))
"""
PAGES = {
    "run_list": ["/runs/", "/runs/?q=nowhere"],
    "launch": ["/runs/new/?template={template}"],
    "template_list": ["/runs/new/templates/"],
    "run_page": ["/runs/{live}/", "/runs/{run}/", "/runs/{synthetic}/", "/runs/{foreign}/", "/runs/{pooled}/"],
    "run_trials": [
        "/runs/{live}/trials/",
        "/runs/{synthetic}/trials/?order=-latency_s",
        "/runs/{live}/trials/?trial=3",
        "/runs/{live}/trials/?min=x",
    ],
    "import_new": ["/imports/new/"],
    "import_page": ["/imports/{imported}/", "/imports/{importing}/"],
    "compare": ["/compare/?runs={run},{other},{live}", "/compare/?runs={run}"],
    "compilation_page": ["/compilations/{compilation}/", "/compilations/{building}/", "/compilations/{broken}/"],
    "task_page": [
        "/runs/{live}/tasks/0/",
        "/runs/{run}/tasks/0/?record={best}",
        "/runs/{run}/tasks/0/?record={best}&diff={next}",
        "/runs/{run}/tasks/0/?record=999",
    ],
    "network_list": ["/networks/"],
    "network_operators": ["/networks/operators/"],
    "own_script": ["/networks/script/"],
    "builtin_page": ["/networks/builtin/mlp/"],
    "regression_list": ["/regressions/"],
    "regression_new": ["/regressions/new/?run={run}"],
    "regression_page": ["/regressions/{check}/"],
    "regression_edit": ["/regressions/{check}/edit/"],
    "network_page": ["/networks/{network}/", "/networks/{network}/?extraction={lost}"],
    "library": ["/library/"],
    "workload_page": ["/library/0000000000000000/"],
    "machine_page": ["/machines/", "/machines/?state=lost"],
    "audit_page": ["/admin/audit/", "/admin/audit/?person=nobody", "/admin/audit/?object=7"],
    "webhook_page": ["/webhooks/"],
    "metrics_page": ["/admin/metrics/"],
    "people_page": ["/admin/people/"],
    "person_page": ["/admin/people/{person}/", "/admin/people/1/"],
    "projects_page": ["/admin/projects/"],
    "project_page": ["/admin/projects/{project}/", "/admin/projects/1/"],
    "account_page": ["/account/"],
    "system_page": ["/admin/system/"],
    "": ["/nowhere/"],
}
"""Paths by the name of their route; a page that is not found has no route."""
NO_PAGES = {
    None: "redirects",
    "sign_in": "for users who are not signed in",
    "oidc_start": "for users who are not signed in",
    "oidc_callback": "for users who are not signed in",
    "one_time_login": "for users who are not signed in",
    "launch_check": "JSON for the form",
    "template_save": "an action",
    "builtin_check": "JSON for the form",
    "network_check": "JSON for the form",
    "template_rename": "an action",
    "template_delete": "an action",
    "target_tags": "JSON for the form",
    "run_figures": "JSON for charts",
    "run_time": "part of run_page",
    "run_predicted": "JSON for charts",
    "run_conditions": "part of run_page",
    "run_console": "JSON for the log",
    "run_act": "an action",
    "run_curation": "an action",
    "run_notes": "part of run_page",
    "run_verdict": "part of run_page",
    "run_roofline": "JSON for charts",
    "run_untuned": "part of run_page",
    "notes_preview": "part of run_page",
    "run_stop": "an action",
    "watch_start": "an action",
    "audit_csv": "a file",
    "webhook_test": "an action",
    "webhook_again": "an action",
    "run_resume": "an action",
    "run_extend": "an action",
    "run_prioritize": "an action",
    "run_compile": "an action",
    "side_by_side_start": "an action",
    "side_by_side_panel": "part of compare",
    "side_by_side_cancel": "an action",
    "compilation_figures": "JSON for charts",
    "compilation_cancel": "an action",
    "compilation_benchmark": "an action",
    "task_figures": "JSON for charts",
    "task_code": "a download",
    "task_decisions": "a part of the task page",
    "import_cancel": "an action",
    "network_extract": "an action",
    "network_delete": "an action",
    "network_float_model": "an action",
    "extraction_panel": "part of network_page",
    "regression_figures": "JSON for charts",
    "regression_set": "an action",
    "regression_run": "an action",
    "regression_renew_badge": "an action",
    "regression_delete": "an action",
    "regression_badge": "an image",
    "tracker_figures": "JSON for charts",
    "machine_drain": "an action",
    "machine_resume": "an action",
    "machine_measure": "an action",
    "machine_forget": "an action",
    "sign_out": "an action",
    "account_password": "an action",
    "token_create": "an action",
    "token_revoke": "an action",
    "sign_out_everywhere": "an action",
    "people_invite": "an action",
    "people_link": "an action",
    "people_role": "an action",
    "people_deactivate": "an action",
    "project_create": "an action",
    "project_change": "an action",
    "project_delete": "an action",
    "member_add": "an action",
    "member_role": "an action",
    "member_remove": "an action",
    "people_reactivate": "an action",
    "health": "text for machines",
    "metrics": "text for machines",
    "metrics_figures": "JSON for charts",
}
SIGNING_IN = [
    "/sign-in/",
    "/oidc/callback/?state=unknown",
    "/login/?sesame=wrong",
    "a login URL that works",
]
COUNT_FETCHES = """
    const fetched = window.fetch;
    window.fetching = 0;
    window.fetchedAt = 0;
    window.fetch = async (...args) => {
        window.fetching += 1;
        try { return await fetched(...args); } finally { window.fetching -= 1; window.fetchedAt = performance.now(); }
    };
"""
READY = """() => document.readyState === "complete" && !window.fetching && performance.now() - window.fetchedAt > 100
    && !document.querySelector(".htmx-request")
    && ![...document.querySelectorAll("main p")].some((one) => one.textContent === "Loading…" && one.checkVisibility() && (one.scrollIntoView(), true))"""
"""Nothing is being fetched, nothing says that it's loading (some of that is read once it is near what is shown), and the last answer has been shown."""
ALIKE = {
    "/runs/{foreign}/",
    "/runs/{synthetic}/",
    "/runs/{live}/trials/",
    "/runs/{live}/trials/?min=x",
    "/compare/?runs={run}",
    "/compilations/{broken}/",
    "/runs/{live}/tasks/0/",
    "/runs/{run}/tasks/0/?record=999",
    "/admin/audit/?person=nobody",
    "/admin/audit/?object=7",
    "/admin/people/1/",
    "/admin/projects/1/",
}
"""Pages that show nothing that another one of their route doesn't show: audited with `--all`."""
PATHS = [pytest.param(path, marks=[pytest.mark.rare] * (path in ALIKE)) for paths in PAGES.values() for path in paths]
TOO_SMALL = """least => [...document.querySelectorAll("button, summary, select, input:not([type=hidden]), .button, .ghost, nav a")]
    .filter((one) => one.checkVisibility() && !one.closest(".modebar, .sr"))
    .map((one) => [one, (one.matches("[type=checkbox], [type=radio]") && one.closest("label") || one).getBoundingClientRect()])
    .filter(([one, {width, height}]) => Math.min(width, height) < least - 0.5)
    .map(([one, {width, height}]) => `${Math.round(width)}×${Math.round(height)} ${one.outerHTML.slice(0, 140)}`)"""
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.body.querySelectorAll("*")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5 && !one.closest(".table-wrap, pre, .tabs, .plot, .code"))
    .map((one) => `${Math.round(one.getBoundingClientRect().right)} px: ${one.outerHTML.slice(0, 140)}`)"""

SPILLED = """() => [...document.querySelectorAll(".stat small, .stat dd > span")].filter((one) => one.checkVisibility()
    && one.getBoundingClientRect().right > one.closest(".stat").getBoundingClientRect().right + 0.5).map((one) => one.textContent)"""
"""Texts that reach into the next figure."""


@pytest.fixture(scope="module")
def site(site_maker: SiteMaker) -> Iterator[LiveSite]:
    """A site of its own, with a tracker and an OpenID provider that are down, and a webhook."""
    site = site_maker.prepared()
    site.env |= {"TUNEBOARD_TRACKERS": f"lab=127.0.0.1:{free_port()}", "TUNEBOARD_WEBHOOKS": HOOK}
    site.env |= {
        "TUNEBOARD_OIDC_ISSUER": f"http://127.0.0.1:{free_port()}",
        "TUNEBOARD_OIDC_CLIENT_ID": "tuneboard",
        "TUNEBOARD_OIDC_CLIENT_SECRET": "secret",
        "TUNEBOARD_OIDC_ROLES": "*=viewer",
        "TUNEBOARD_OIDC_ADMIT": "*",
    }
    site.start()
    yield site
    site.stop()


@pytest.fixture(scope="module")
def world(site: LiveSite) -> dict[str, int]:
    """Ids of a little of everything, by their placeholders in PAGES."""
    keys: dict[str, int] = json.loads(site.manage("shell", "-v", "0", "--no-imports", "-c", SEED))
    return keys


@pytest.fixture
def admin(page: Page, site: LiveSite) -> Page:
    page.context.add_cookies(site.cookies)
    return page


def visit(page: Page, site: LiveSite, path: str) -> None:
    """Opens the page and waits until its charts are drawn and its lists are filled."""
    page.set_viewport_size(WIDE)
    page.add_init_script(COUNT_FETCHES)
    answer = page.goto(site.url + path)
    assert answer
    assert answer.status < 500, path
    page.wait_for_function(READY, timeout=LONG_MS)
    page.evaluate("scrollTo(0, 0)")


def audit(page: Page, what: str, rules: dict[str, Any], within: str | None = None) -> None:
    # Wherever the page is scrolled to: where the header sticks, it covers parts of it.
    page.evaluate("for (const head of document.querySelectorAll('.top')) head.style.position = 'relative'")
    results = Axe().run(page, context=within, options=rules)
    assert not results.violations_count, f"{what}: {results.generate_report()}"


def audit_in_both_themes(page: Page, what: str, within: str | None = None) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    audit(page, f"{what}, light", RULES, within)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    audit(page, f"{what}, dark", COLORS, within)


def test_every_page_is_audited() -> None:
    names = [entry.name for entry in urlpatterns if isinstance(entry, URLPattern)]
    assert [name for name in names if name not in PAGES and name not in NO_PAGES] == []
    assert [name for name in PAGES if name and name not in names] == []


@pytest.mark.parametrize("path", PATHS)
def test_it_passes_the_audit_and_fits_a_phone_with_controls_large_enough_to_tap(
    site: LiveSite, world: dict[str, int], admin: Page, path: str
) -> None:
    visit(admin, site, path.format(**world))
    audit_in_both_themes(admin, path)
    assert admin.evaluate(SPILLED) == []
    admin.set_viewport_size(PHONE)
    admin.wait_for_function(READY, timeout=LONG_MS)
    wide: list[str] = admin.evaluate(TOO_WIDE)
    assert not wide, f"{path} scrolls sideways:\n" + "\n".join(wide)
    small: list[str] = admin.evaluate(TOO_SMALL, TAP_PX)
    assert not small, f"{path} has controls too small to tap:\n" + "\n".join(small)


@pytest.mark.parametrize("path", SIGNING_IN)
def test_the_sign_in_page_passes_the_audit(site: LiveSite, page: Page, path: str) -> None:
    visit(page, site, path if path.startswith("/") else site.login_url().removeprefix(site.url))
    audit_in_both_themes(page, path)
    page.set_viewport_size(PHONE)
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(TOO_SMALL, TAP_PX) == []


DIALOGS = {
    "/runs/": [
        ("[data-role=display]", "[data-choice=theme][value=dark]"),
        ("[data-role=user-menu] > summary", "[data-role=sign-out]"),
        ("[data-role=help]", "[data-role=shortcut-list]"),
    ],
    "/runs/{live}/": [
        ("[data-role=downloads] > summary", "[data-figure=latency]"),
        ("[data-role=stop]", "[data-role=stop-confirm]"),
        ("[data-role=errors-list] summary", "[data-role=errors-list] pre"),
    ],
    "/runs/{run}/": [
        ("[data-role=more] > summary", "[data-role=extend]"),
        ("[data-role=compare]", "[data-role=compare-confirm]"),
        ("[data-role=extend]", "[data-role=extend-confirm]"),
        ("[data-role=compile]", "[data-role=compile-confirm]"),
        ("[data-role=rename]", "[data-role=rename-form] [name=name]"),
        ("[data-role=notes-edit]", "[data-role=notes-editor] textarea"),
    ],
    "/runs/new/": [("[data-role=advanced] > summary", "#id_seed")],
    "/admin/people/": [("[data-opens^=deactivate]", "dialog[open]")],
    "/machines/?q=lab-2": [("[data-asks=drain]", "[data-role=drain-dialog]")],
    "/networks/{network}/": [(".task-code summary", ".task-code pre")],
}
"""What opens on a page: what is clicked, and what is shown then."""
UNFOLD = "one => { const menu = one.closest('.menu-panel')?.parentElement; if (menu) menu.open = true; }"
"""Opens the menu that the button is in."""
MARK = """one => {
    document.querySelectorAll("[data-audited]").forEach((earlier) => delete earlier.dataset.audited);
    (one.closest("dialog, details, form, [popover]") ?? one).dataset.audited = "";
}"""


@pytest.mark.parametrize("path", DIALOGS)
def test_dialogs_and_menus_pass_the_audit(site: LiveSite, world: dict[str, int], admin: Page, path: str) -> None:
    """Only what opened: the page around it was audited, and a chart's page takes seconds to load and to audit."""
    visit(admin, site, path.format(**world))
    for opener, shown in DIALOGS[path]:
        admin.locator(opener).first.evaluate(UNFOLD)
        admin.locator(opener).first.click()
        expect(admin.locator(shown).first).to_be_visible()
        admin.locator(shown).first.evaluate(MARK)
        audit_in_both_themes(admin, f"{opener} on {path}", "[data-audited]")
        admin.keyboard.press("Escape")


def test_the_page_of_the_api_passes_the_audit_and_fits_a_phone(
    site: LiveSite, world: dict[str, int], admin: Page
) -> None:
    """Apart from what Swagger UI nests in its buttons."""
    visit(admin, site, "/api/v1/docs")
    expect(admin.locator(".opblock").first).to_be_visible(timeout=LONG_MS)
    rules = RULES | {"rules": {"nested-interactive": {"enabled": False}}}
    for scheme in SCHEMES:
        admin.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        audit(admin, f"the API's page, {scheme}", rules)
    admin.set_viewport_size(PHONE)
    assert admin.evaluate(TOO_WIDE) == []


def test_the_navigation_collapses_on_a_phone(site: LiveSite, world: dict[str, int], admin: Page) -> None:
    visit(admin, site, "/runs/")
    admin.set_viewport_size(PHONE)
    networks = admin.get_by_role("navigation", name="Main").get_by_role("link", name="Networks")
    expect(networks).to_be_hidden()
    admin.get_by_role("button", name="Pages").click()
    expect(networks).to_be_visible()
    audit_in_both_themes(admin, "the open menu")
    admin.keyboard.press("Escape")
    expect(networks).to_be_hidden()
    admin.get_by_role("button", name="Pages").click()
    networks.click()
    admin.wait_for_url("**/networks/")


def test_the_keyboard_can_skip_the_navigation(site: LiveSite, world: dict[str, int], admin: Page) -> None:
    visit(admin, site, "/runs/")
    admin.keyboard.press("Tab")
    expect(admin.get_by_role("link", name="Skip to content")).to_be_focused()
    expect(admin.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    admin.keyboard.press("Enter")
    expect(admin.locator("#main")).to_be_focused()


def test_a_chart_has_a_description(site: LiveSite, world: dict[str, int], admin: Page) -> None:
    visit(admin, site, f"/runs/{world['live']}/")
    words = admin.locator("[data-role=chart-latency] ~ .sr")
    expect(words).to_contain_text("Best latency of each task: Latency against Trial. At the end: 0 fused_matmul0 1.000")
    admin.get_by_role("button", name="Time", exact=True).click()
    expect(words).to_contain_text("Latency against Time since the start")


@pytest.mark.rare
def test_a_phone_shows_many_trials_at_once(site: LiveSite, world: dict[str, int], admin: Page) -> None:
    visit(admin, site, f"/runs/{world['synthetic']}/trials/")
    admin.set_viewport_size(PHONE)
    rows = admin.locator("[data-role=trials-table] tbody tr")
    heights: list[float] = rows.evaluate_all("all => all.map(row => row.getBoundingClientRect().height)")
    assert len(heights) == 50
    assert max(heights) <= 48, "each trial is one row, not a card"
    for cell in ("Trial", "Task", "Latency", "Outcome"):
        expect(rows.first.locator(f"[data-label={cell}]")).to_be_visible()
