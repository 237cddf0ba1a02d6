"""For how long a run goes on, as its page counts it down between trials."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("without_charts")]

TRIES = 150
SEED = """
from django.db.models import F
from tests.world import claimed, make_run, make_tasks, record_trials
from tuning.models import Run
run = claimed(make_run(device="elsewhere", trials_budget=40, options={"trials_per_batch": 4}))
make_tasks(run, 1)
record_trials(run, [(0, 1e-3)] * TRIALS)
run.trials.update(at_s=F("number") * 11)
Run.objects.filter(pk=run.pk).update(elapsed_s=TRIALS * 11, origin="streamed")
print(run.pk)
"""
"""A running run of rounds of 4 trials and 44 seconds. A streamed one may be silent for minutes."""
END = """
from tuning.models import Run
Run.objects.get(pk=KEY).move("running", to="finished")
"""


def test_it_counts_down_by_no_more_than_the_current_round(live_site: LiveSite, signed_in: Page) -> None:
    page = signed_in
    key = live_site.manage("shell", "--no-imports", "-c", SEED.replace("TRIALS", "13")).strip()
    page.clock.install()
    page.goto(f"{live_site.url}/")
    left = page.locator(f"tr[data-run='{key}'] [data-role=remaining]")
    expect(left).to_have_text("about 5\u00a0min left")
    page.goto(f"{live_site.url}/runs/{key}/")
    expect(page.locator("[data-role=remaining]")).to_have_text("about 5\u00a0min")
    # Of 297 seconds, 33 are the current round's. The countdown begins once the page has heard of the run.
    shown = page.locator("[data-role=remaining]")
    for _ in range(TRIES):
        page.clock.fast_forward(60_000)
        if shown.inner_text() != "about 5\u00a0min":
            break
        page.wait_for_timeout(200)
    page.clock.fast_forward(600_000)
    expect(shown).to_have_text("about 4\u00a0min")
    live_site.manage("shell", "--no-imports", "-c", END.replace("KEY", key))
    page.reload()
    expect(page.locator("[data-role=remaining]")).to_have_text("–")
    expect(page.locator("[data-role=remaining-of]")).to_have_text("the run has ended")


def test_it_is_not_known_before_a_round_has_ended(live_site: LiveSite, signed_in: Page) -> None:
    key = live_site.manage("shell", "--no-imports", "-c", SEED.replace("TRIALS", "3")).strip()
    signed_in.goto(f"{live_site.url}/runs/{key}/")
    expect(signed_in.locator("[data-role=remaining]")).to_have_text("–")
    expect(signed_in.locator("[data-role=remaining-of]")).to_have_text("not known yet")
    live_site.manage("shell", "--no-imports", "-c", END.replace("KEY", key))
