"""People sign in and out in a browser, which checks more than Django's test client: cookies, origins, forms, redirects."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.live import LiveSite
from tests.openid import OpenIdProvider, openid_provider
from tests.sites import SiteMaker

pytestmark = [pytest.mark.browser]
Site = tuple[LiveSite, OpenIdProvider]


@pytest.fixture(scope="module")
def site_with_provider(site_maker: SiteMaker) -> Iterator[Site]:
    """A site without sign-in by password, and its provider."""
    site = site_maker.prepared()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
        with openid_provider(f"{site.url}/oidc/callback/") as provider:
            site.env |= provider.variables(TUNEBOARD_PASSWORD_SIGN_IN="0")
            site.start()
            yield site, provider
            site.close()


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


def test_people_sign_in_with_the_provider_and_out_again(site_with_provider: Site, page: Page) -> None:
    site, provider = site_with_provider
    provider.person("7f3", preferred_username="ada", realm_access={"roles": ["tune-operators"]})
    page.goto(f"{site.url}/runs/new/")
    expect(page.get_by_label("Password")).to_have_count(0)
    page.get_by_role("link", name="Sign in with Keycloak").click()
    page.get_by_placeholder("sub").fill("7f3")
    page.get_by_role("button", name="Authorize").click()
    expect(page).to_have_url(f"{site.url}/runs/new/")
    page.get_by_label("Account of ada").click()
    expect(page.locator('[data-role="user-role"]')).to_have_text("operator")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile(f"{provider.issuer}/oauth2/end_session"))
    page.locator("form button").first.click()
    expect(page).to_have_url(f"{site.url}/sign-in/")
    page.goto(f"{site.url}/runs/")
    expect(page).to_have_url(re.compile("/sign-in/"))


def test_whom_the_provider_gives_no_role_is_told_so(site_with_provider: Site, page: Page) -> None:
    site, provider = site_with_provider
    provider.person("8a1", preferred_username="mallory")
    page.goto(f"{site.url}/sign-in/")
    page.get_by_role("link", name="Sign in with Keycloak").click()
    page.get_by_placeholder("sub").fill("8a1")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("heading")).to_have_text("You aren’t signed in")
    expect(page.locator('[data-role="reason"]')).to_contain_text("gives you a role here")


@pytest.mark.rare
def test_without_passwords_the_first_admin_still_signs_in_by_url(site_with_provider: Site, page: Page) -> None:
    site, _ = site_with_provider
    page.goto(site.login_url())
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{site.url}/runs/")
