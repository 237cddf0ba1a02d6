"""From a run to a library that runs elsewhere, in a browser: real tuning, real compilation, and a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.tvm]
LONG_MS = 300_000
LAUNCH = {
    "network": "mlp",
    "trials": 12,
    "trials_per_batch": 6,
    "strategy": "replay-trace",
    "min_repeat_ms": 10,
    "seed": 1,
}


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def save(page: Page, link: str, folder: Path) -> Path:
    with page.expect_download() as download:
        role(page, link).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_a_network_is_compiled_verified_and_downloaded(live_site: LiveSite, signed_in: Page, tmp_path: Path) -> None:
    page = signed_in
    status, run = live_site.api("POST", "/runs", LAUNCH, token=live_site.token())
    assert status == 201, run
    page.goto(f"{live_site.url}/runs/{run['id']}/")
    expect(role(page, "status")).to_have_text("finished", timeout=LONG_MS)

    role(page, "compile").click()
    role(page, "compile-confirm").click()
    page.wait_for_url("**/compilations/*/")  # The run's page has a status, too.
    expect(role(page, "status")).to_have_text("finished", timeout=LONG_MS)
    expect(role(page, "coverage")).to_have_text("2 of 2 functions use a tuned record")
    expect(role(page, "verdict")).to_have_attribute("data-verified", "yes")
    for side in ("tuned", "untuned"):
        figures = role(page, "benchmark-table").locator(f"[data-side={side}] td.num").all_inner_texts()
        median, mean, longest, shortest = (float(figures[column].replace(",", "")) for column in (0, 2, 3, 4))
        assert 0 < shortest <= median <= longest
        assert shortest <= mean <= longest

    library = save(page, "download-library", tmp_path)
    snippet = page.locator("[data-role=snippet][data-language=python]")
    program = tmp_path / snippet.locator(".mono").inner_text()
    program.write_text(snippet.locator("pre").inner_text())
    assert library.stem == program.stem
    ran = subprocess.run(
        [sys.executable, program], cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "(1, 10) float32" in ran.stdout

    role(page, "benchmark").click()
    expect(role(page, "history-table").locator("tbody tr")).to_have_count(2, timeout=LONG_MS)
    page.goto(f"{live_site.url}/runs/{run['id']}/")
    row = role(page, "compilations").locator("tbody tr")
    expect(row).to_contain_text("same outputs")
    expect(row).to_contain_text("2 of 2")
