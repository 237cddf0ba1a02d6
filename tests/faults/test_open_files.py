"""A process that may open no more files or connections says so, and recovers."""

from __future__ import annotations

import errno
import logging

import psutil
import pytest

from dashboard.http.logs import OneLine
from tests.faults.answers import answers_to
from tests.live import LiveSite
from tuning.host.reachable import EXHAUSTED

RUN = {"network": "matmul", "network_options": {"n": 64}, "trials": 2, "trials_per_batch": 2, "min_repeat_ms": 10}


@pytest.mark.django_db
def test_the_api_and_pages_say_that_no_more_files_can_be_opened(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(OneLine())
    page, answer = answers_to(OSError(errno.EMFILE, "Too many open files", "page.html"), monkeypatch)
    assert page == (503, f"{EXHAUSTED}\n")
    assert answer == (503, {"code": "unavailable", "message": EXHAUSTED})
    lines = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert lines
    assert all("Too many open files" in line.getMessage() and line.exc_info is None for line in lines)


@pytest.mark.tvm
@pytest.mark.rare
def test_web_and_worker_survive_it_and_nothing_is_lost(new_site: LiveSite) -> None:
    site = new_site
    site.start()
    token = site.token("operator")
    (web,), (worker,) = site.processes("dashboard.serve"), site.processes("tuning.queue.worker", "device.cpu")
    run = site.api("POST", "/runs", RUN, token=token)[1]["id"]
    site.wait_for(lambda: site.api("GET", f"/runs/{run}", token=token)[1]["status"] == "finished", 120)

    lowest = web.num_fds() - 5
    web.rlimit(psutil.RLIMIT_NOFILE, (lowest, 20_000))
    answers = [site.api("GET", "/runs", token=token)[0] for _ in range(3) if site.answers()]
    assert set(answers) <= {200, 503}
    web.rlimit(psutil.RLIMIT_NOFILE, (20_000, 20_000))
    site.wait_for(lambda: site.api("GET", "/runs", token=token)[0] == 200)

    worker.rlimit(psutil.RLIMIT_NOFILE, (worker.num_fds() + 1, 20_000))
    site.api("POST", f"/runs/{run}/extend", {"trials": 2}, token=token)
    site.wait_for(lambda: site.api("GET", f"/runs/{run}", token=token)[1]["status"] == "failed", 120)
    assert "Too many open files" in site.api("GET", f"/runs/{run}", token=token)[1]["error"]
    worker.rlimit(psutil.RLIMIT_NOFILE, (20_000, 20_000))
    site.api("POST", f"/runs/{run}/resume", token=token)
    site.wait_for(lambda: site.api("GET", f"/runs/{run}", token=token)[1]["status"] == "finished", 120)
    assert site.api("GET", f"/runs/{run}/trials", token=token)[1]["number"] == [1, 2, 3, 4]
    assert web.is_running()
    assert worker.is_running()
