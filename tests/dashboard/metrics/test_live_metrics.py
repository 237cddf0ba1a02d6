"""On a running site: tuning raises the counters, sockets and sweeps show, and a restart of the web process loses no trial."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client import parser
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.live import LiveSite

pytestmark = [pytest.mark.tvm, pytest.mark.one_database]
TUNE_S = 300


def scraped(site: LiveSite) -> dict[str, float]:
    """Sums over labels, by the name of the sample."""
    request = urllib.request.Request(f"{site.url}/metrics", headers={"Authorization": f"Bearer {site.token('admin')}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read().decode()
    found: dict[str, float] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


@pytest.mark.rare
def test_it_follows_a_run_and_its_watcher(new_site: LiveSite) -> None:
    site = new_site
    site.start()
    before = scraped(site)
    assert (before["tuneboard_trials_total"], before["tuneboard_sockets_opened_total"]) == (0, 0)

    order = {"network": "matmul", "trials": 4, "trials_per_batch": 4, "strategy": "replay-trace"}
    status, run = site.api("POST", "/runs", order, token=site.token())
    assert status == 201
    cookies = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in site.cookies)
    address = f"ws://127.0.0.1:{site.port}/ws/runs/{run['id']}/"
    with connect(address, origin=Origin(site.url), additional_headers={"Cookie": cookies}) as socket:
        socket.recv(timeout=30)
        assert scraped(site)["tuneboard_sockets_open"] == 1
        site.wait_for(
            lambda: site.api("GET", f"/runs/{run['id']}", token=site.token())[1]["status"] == "finished", TUNE_S
        )
    site.wait_for(lambda: scraped(site)["tuneboard_sockets_open"] == 0)
    # The seconds are counted after the run's end.
    site.wait_for(lambda: scraped(site)["tuneboard_recorder_lag_seconds_count"] == 4)

    after = scraped(site)
    assert after["tuneboard_trials_total"] == 4
    assert after["tuneboard_tuning_seconds_total"] > 0
    assert after["tuneboard_recorder_lag_seconds_sum"] > 0
    assert after["tuneboard_sockets_opened_total"] == 1
    assert (
        after["tuneboard_http_request_duration_seconds_count"] > before["tuneboard_http_request_duration_seconds_count"]
    )
    assert after["tuneboard_sweep_age_seconds"] >= 0

    site.restart_web()
    site.wait_for(lambda: "tuneboard_trials_total" in scraped(site))
    again = scraped(site)
    assert again["tuneboard_trials_total"] == 4
    assert again["tuneboard_sockets_opened_total"] == 0, "it counts since the web process started"
