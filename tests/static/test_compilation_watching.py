"""A compilation's page in a browser: live updates, catching up, copying."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = pytest.mark.browser
LONG_MS = 120_000
BEGIN = """
from tests.heartbeats import keep_alive
from tests.world import make_compilation, measured_run, publish
from tuning.notify.announce import announce_compilation
from tuning.models import Benchmark, Compilation, Run
"""
"""Code that changes the site's database."""
RUNNING = """
run = measured_run(device="elsewhere")
run.move("running", to="finished")
built = dict.fromkeys(("verified", "max_abs_error", "max_rel_error", "tolerance", "finished_at", "sha256", "size"))
one = make_compilation(
    run, **built, status="running", stage="build", phase="loading", lease="x", used=[], untuned=[]
)
keep_alive(one)
one.folder.mkdir(parents=True)
one.console_log.write_text("first line\\n")
print(one.pk)
"""
LINKING = """
Compilation.objects.filter(pk={key}).update(phase="linking", progress=0.5)
with Compilation.objects.get(pk={key}).console_log.open("a") as log:
    log.write("second line\\n")
announce_compilation({key})
"""
PROVEN = """
one = Compilation.objects.get(pk={key})
publish(one)
Compilation.objects.filter(pk={key}).update(
    status="finished", stage="prove", phase=None, progress=None, sha256="ab" * 32, size=4096, verified=True,
    max_abs_error=1e-6, max_rel_error=1e-6, tolerance={{"dtype": "float32", "relative": 1e-3}},
    used=[{{"function": "fused_matmul0", "run": one.run_id, "trial": 3, "latency_s": 1e-3}}], untuned=["fused_matmul1"],
)
Benchmark.objects.create(compilation=one, rounds={{"tuned": [8e-3], "untuned": [80e-3]}}, without_onnxruntime="None here.")
"""
AGAIN = """
one = Compilation.objects.get(pk={key})
Benchmark.objects.create(compilation=one, rounds={{"tuned": [4e-3], "untuned": [80e-3]}}, without_onnxruntime="None here.")
announce_compilation({key})
"""


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def tell(site: LiveSite, code: str) -> str:
    return site.manage("shell", "-v", "0", "-c", BEGIN + code).strip()


@pytest.fixture
def following(live_site: LiveSite, signed_in: Page) -> tuple[Page, int]:
    """The page of a compilation that is being built, with its key."""
    key = int(tell(live_site, RUNNING))
    signed_in.goto(f"{live_site.url}/compilations/{key}/")
    expect(role(signed_in, "phase")).to_have_text("loading TVM and the network")
    return signed_in, key


def test_it_follows_a_compilation_to_its_end(live_site: LiveSite, following: tuple[Page, int]) -> None:
    page, key = following
    expect(role(page, "console")).to_have_text("first line\n")
    tell(live_site, LINKING.format(key=key))
    expect(role(page, "phase")).to_have_text("linking", timeout=LONG_MS)
    expect(role(page, "progress")).to_have_js_property("value", 0.5)
    expect(role(page, "console")).to_have_text("first line\nsecond line\n", timeout=LONG_MS)

    live_site.kill("dashboard.serve")
    expect(role(page, "connection")).to_be_visible(timeout=LONG_MS)
    tell(live_site, PROVEN.format(key=key))
    expect(role(page, "connection")).to_be_hidden(timeout=LONG_MS)
    expect(role(page, "status")).to_have_text("finished", timeout=LONG_MS)
    expect(role(page, "speedup")).to_have_text("10.0×")
    expect(role(page, "covered")).to_have_text("1 of 2")
    expect(role(page, "verdict")).to_have_attribute("data-verified", "yes")
    expect(role(page, "cancel")).to_have_count(0)
    expect(role(page, "history-table")).to_be_hidden()

    tell(live_site, AGAIN.format(key=key))
    expect(role(page, "speedup")).to_have_text("20.0×", timeout=LONG_MS)
    expect(role(page, "history-table").locator("tbody tr")).to_have_count(2)
    page.wait_for_function(
        "() => document.querySelector('[data-role=chart-history]').data?.[0].y.length === 2", timeout=LONG_MS
    )
    expect(page.locator(".chart-box .main-svg").first).to_be_visible()


def test_a_snippet_is_copied_verbatim(live_site: LiveSite, following: tuple[Page, int]) -> None:
    page, key = following
    tell(live_site, PROVEN.format(key=key) + f"announce_compilation({key})")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    snippet = page.locator("[data-role=snippet][data-language=python]")
    snippet.get_by_role("button", name="Copy").click(timeout=LONG_MS)
    expect(snippet.get_by_role("button")).to_have_text(re.compile("Copied"))
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == snippet.locator("pre").inner_text()
    compile(copied, "snippet", "exec")


def test_the_library_is_searched_while_typing(live_site: LiveSite, signed_in: Page) -> None:
    tell(live_site, 'measured_run(device="another").move("running", to="finished")')
    signed_in.goto(f"{live_site.url}/library/")
    rows = role(signed_in, "library-table").locator("tbody tr")
    expect(rows.first).to_be_visible()
    role(signed_in, "search").fill("fused_matmul0 mlp")
    expect(role(signed_in, "shown")).to_have_text("1 to 1 of 1")
    assert "q=fused_matmul0" in signed_in.url
    rows.first.locator("a").first.click()
    expect(role(signed_in, "target-panel").locator("tbody tr").first).to_be_visible()
