"""Runs that are measured elsewhere, in a browser: a file that grows, and a script that is stopped on its page."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard.client import tuneboard
from tests.dashboard.client.tuners import AutoTVMTask, autotvm_batch
from tests.live import ROOT, LiveSite

pytestmark = pytest.mark.browser
LONG_MS = 60_000
ARGS = [["TENSOR", [1, 128], "float32"], ["TENSOR", [64, 128], "float32"]]


def role(page: Page, name: str) -> Any:
    return page.locator(f"[data-role={name}]")


def line(index: int) -> str:
    about = {
        "input": ["llvm", "dense_nopack.x86", ARGS, {}],
        "config": {"index": index, "code_hash": None, "entity": []},
    }
    return json.dumps(about | {"result": [[index * 1e-3], 0, 0.5, 1e9 + index], "version": 0.2}) + "\n"


def drawn(page: Page) -> int:
    """The points of the allocation chart, which has one for each trial."""
    found: list[int] = page.evaluate(
        "() => (document.querySelector('[data-role=chart-allocation]')?.data ?? []).map(trace => trace.x.length)"
    )
    return sum(found)


def test_a_growing_file_is_live_on_its_page(live_site: LiveSite, signed_in: Page, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text(line(5))
    command = [sys.executable, str(ROOT / "manage.py"), "watch", str(log), "--network", "mlp"]
    with subprocess.Popen(command, env=live_site.env, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout
        try:
            number = watcher.stdout.readline().split()[1]
            signed_in.goto(f"{live_site.url}/runs/{number}/")
            expect(role(signed_in, "status")).to_have_text("running")
            expect(role(signed_in, "trials-done")).to_have_text("1", timeout=LONG_MS)
            with log.open("a") as file:
                file.write(line(4) + line(3) + line(2)[:30])
            expect(role(signed_in, "trials-done")).to_have_text("3", timeout=LONG_MS)
            with log.open("a") as file:
                file.write(line(2)[30:])
            expect(role(signed_in, "trials-done")).to_have_text("4", timeout=LONG_MS)
            expect(role(signed_in, "origin")).to_have_text("watched")
            watcher.send_signal(signal.SIGINT)
            expect(role(signed_in, "status")).to_have_text("stopped", timeout=LONG_MS)
            assert watcher.wait(60) == 0
        finally:
            watcher.kill()


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    for _ in range(LONG_MS // 100):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("not in time")


def test_stop_on_the_page_reaches_a_script(
    live_site: LiveSite, signed_in: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuneboard, "BEAT_S", 0.2)
    task = AutoTVMTask()
    callback = tuneboard.callback(live_site.url, live_site.token(), network="mlp", spool=str(tmp_path), tasks=[task])
    callback(*autotvm_batch(task, 4))
    (stream,) = callback._streams.values()
    wait_until(signed_in, lambda: stream._delivery._have == 4)
    signed_in.goto(f"{live_site.url}/runs/{stream._delivery._run}/")
    expect(role(signed_in, "trials-done")).to_have_text("4")
    callback(*autotvm_batch(task, 2, 4))
    expect(role(signed_in, "trials-done")).to_have_text("6", timeout=LONG_MS)
    role(signed_in, "stop").click()
    role(signed_in, "stop-confirm").click()
    wait_until(signed_in, lambda: stream.stop)
    with pytest.raises(tuneboard.StopRequested):
        callback(*autotvm_batch(task, 2, 6))
    assert callback.close()
    expect(role(signed_in, "status")).to_have_text("stopped", timeout=LONG_MS)
    expect(role(signed_in, "trials-done")).to_have_text("8")
