"""People sign in and out in a browser, which checks more than Django's test client: cookies, origins, forms."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite

pytestmark = [pytest.mark.browser]


def test_a_login_url_signs_in_by_a_click_and_only_once(live_site: LiveSite, page: Page) -> None:
    url = live_site.login_url()
    page.goto(url)
    expect(page.get_by_role("heading")).to_have_text("Sign in as admin?")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{live_site.url}/runs/")
    page.get_by_label("Account of admin").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in/"))
    page.goto(url)
    expect(page.get_by_role("button", name="Sign in")).to_have_count(0)
