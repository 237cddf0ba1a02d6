"""Databases, broker, whole site and browser for all tests.

Fixtures for other tests: `database_env` (environment of a process that shall see the test database; the test must be
`django_db(transaction=True)`), `live_site` (the whole site, shared by the session), `new_site` (makes one for
tests that break it), `page` (a page of Chromium), `signed_in` (a page signed in to `live_site`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db import connection

from tests.benchmarks.web import chromium
from tests.live import LiveSite, environment
from tuning.engines.wire.lifeline import die_with
from tuning.host import valkey
from tuning.host.postgresql import new_database, url_of

pytest_plugins = ["tests.engine_fixtures", "tests.compile_fixtures"]

DATABASE_FIXTURES = {"db", "transactional_db", "live_site"}

# No deadline: a loaded machine is slow, and that is no fault of the code.
hypothesis.settings.register_profile("tuneboard", deadline=None, print_blob=True)
hypothesis.settings.load_profile("tuneboard")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The slowest come first, or the last of them keeps one core busy and leaves the others idle.

    A second round on another database repeats only the tests that touch the database.
    """
    if torn := [
        item.nodeid for item in items if item.get_closest_marker("browser") and item.get_closest_marker("django_db")
    ]:
        # Playwright's event loop gives the test another connection than its fixtures have, and nobody closes the first.
        raise pytest.UsageError(f"Browser tests use the site's database, not the test's own: {', '.join(torn)}")
    items.sort(key=lambda item: item.get_closest_marker("tvm") is None)
    if "TUNEBOARD_TEST_DATABASE_URL" not in os.environ:
        return
    config.hook.pytest_deselected(items=[item for item in items if not is_repeated(item)])
    items[:] = filter(is_repeated, items)


def is_repeated(item: pytest.Item) -> bool:
    """Whether it touches the database, and in a way that is its own."""
    fixtures = set(getattr(item, "fixturenames", ()))
    touches = item.get_closest_marker("django_db") is not None or bool(fixtures & DATABASE_FIXTURES)
    return touches and item.get_closest_marker("first_round") is None


@pytest.fixture(scope="session", autouse=True)
def embedded_valkey() -> Iterator[None]:
    """The broker and channel layer that the tests' settings name, really running."""
    valkey.prepare(settings.VAR)
    tests = os.getpid()
    with subprocess.Popen(
        valkey.command(settings.VAR),
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: die_with(tests),  # noqa: PLW1509 - pytest has one thread yet
    ) as server:
        while not valkey.answers(settings.VAR):
            assert server.poll() is None, f"Valkey ended with status {server.returncode}"
        yield
        server.terminate()
    valkey.clean_up(settings.VAR)


@pytest.fixture
def database_env(transactional_db: None) -> dict[str, str]:
    """The environment of a process that shall see the database (and broker) of this test."""
    name = connection.settings_dict["NAME"]
    url = (
        f"sqlite:///{name}"
        if connection.vendor == "sqlite"
        else url_of(os.environ["TUNEBOARD_TEST_DATABASE_URL"], str(name))
    )
    return environment(settings.VAR, url) | {"REDIS_URL": settings.REDIS_URL}


@pytest.fixture(scope="session")
def site_maker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], LiveSite]]:
    sites: list[LiveSite] = []

    def make() -> LiveSite:
        var = tmp_path_factory.mktemp("site") / "var"
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        sites.append(LiveSite(var, new_postgresql_database(f"site_{worker}_{len(sites)}")))
        return sites[-1]

    yield make
    for site in sites:
        if site.running:
            site.stop()


def new_postgresql_database(name: str) -> str | None:
    """Makes an empty database when the tests run on PostgreSQL; gives its URL."""
    server = os.environ.get("TUNEBOARD_TEST_DATABASE_URL")
    return new_database(server, name) if server else None


@pytest.fixture(scope="session")
def live_site(site_maker: Callable[[], LiveSite]) -> LiveSite:
    """The whole site: web, worker, sweep and broker as `manage.py up --no-demo` starts them; leave it whole."""
    site = site_maker()
    site.start()
    return site


@pytest.fixture
def new_site(site_maker: Callable[[], LiveSite]) -> Iterator[LiveSite]:
    """A site that a test starts and may break."""
    site = site_maker()
    yield site
    if site.running:
        site.stop()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Of Debian's Chromium; without it browser tests are skipped, and fail in CI."""
    try:
        return chromium.executable()
    except chromium.NoBrowser as missing:
        reason = f"NO BROWSER TEST RAN: {missing}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Any]:
    """Debian's Chromium, for one module: Playwright keeps an event loop in this thread, which async tests can't stand."""
    with pytest.MonkeyPatch.context() as patch, chromium.browser() as started:
        # Django sees Playwright's loop and takes our plain calls of the ORM for calls from a coroutine.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield started


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of a fresh profile. The test fails when a script of ours threw, or the page broke its own CSP."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(f"script error: {error}"))
    page.on("console", lambda message: troubles.extend([message.text] * ("Content Security Policy" in message.text)))
    yield page
    context.close()
    assert not troubles, "\n".join(troubles)


@pytest.fixture
def signed_in(live_site: LiveSite, page: Any) -> Any:
    """A page signed in to `live_site` as its admin."""
    page.goto(live_site.login_url())
    return page


@pytest.fixture
def project_root() -> Path:
    return Path(settings.BASE_DIR)
