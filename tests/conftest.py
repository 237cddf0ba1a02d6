"""The fixtures of all tests.

Fixtures for other tests: `database_env` (environment of a process that sees the test database; the test must be
`django_db(transaction=True)`), `live_site` (the whole site, shared by the session), `new_site` (a site that a test
may break), `empty_site` (one before its very first start), `page` (a page of Chromium), `signed_in` (a page signed in
to `live_site`), `without_charts` (that page's charts aren't drawn).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.core.management.commands import flush
from django.db import connection

from tests.benchmarks.web import chromium
from tests.live import LiveSite, environment
from tests.sites import SiteMaker
from tuning import audit
from tuning.apps import make_first_project
from tuning.audit.refusals import Refusals
from tuning.engines.wire.lifeline import die_with
from tuning.host import valkey
from tuning.host.postgresql import url_of

pytest_plugins = [
    "tests.rounds",
    "tests.engine_fixtures",
    "tests.compile_fixtures",
    "tests.legacy_fixtures",
    "tests.openid_fixtures",
    "tests.storage_fixtures",
    "tests.torch_fixtures",
]

LASTING = {"django_migrations", "django_content_type", "auth_permission", "auth_group", "auth_group_permissions"}
"""Tables that only migrations fill."""
# With a debugger, V8 looks up the place of each exception that Plotly throws and catches. Here it needn't read the bundle again for
# that, which takes a third of a chart's page.
CHROMIUM = ("--js-flags=--no-enable-lazy-source-positions", "--disable-software-rasterizer")

# No deadline: a busy machine is slow, which is not the code's fault.
hypothesis.settings.register_profile("tuneboard", deadline=None, print_blob=True)
hypothesis.settings.load_profile("tuneboard")


@pytest.fixture(scope="session", autouse=True)
def embedded_valkey() -> Iterator[None]:
    """A running Valkey: the broker and channel layer in the tests' settings."""
    valkey.prepare(settings.VAR)
    tests = os.getpid()
    with subprocess.Popen(
        valkey.command(settings.VAR),
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: die_with(tests),  # noqa: PLW1509 - pytest has only one thread so far
    ) as server:
        while not valkey.answers(settings.VAR):
            assert server.poll() is None, f"Valkey ended with status {server.returncode}"
        yield
        server.terminate()
    valkey.clean_up(settings.VAR)


@pytest.fixture(scope="session", autouse=True)
def quick_flush() -> Iterator[None]:
    """After a test that commits, rows are deleted. Django truncates every table, and has each permission and role made again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "sql_flush", lambda _style, database, **_: _deletions(database))
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_: make_first_project(connection.alias))
        yield


def _deletions(database: Any) -> list[str]:
    tables = set(database.introspection.django_table_names(only_existing=True, include_views=False)) - LASTING
    return [f"DELETE FROM {database.ops.quote_name(table)}" for table in sorted(tables)]


@pytest.fixture
def database_env(transactional_db: None) -> dict[str, str]:
    """The environment of a process that uses this test's database, broker and store of files."""
    name = connection.settings_dict["NAME"]
    url = (
        f"sqlite:///{name}"
        if connection.vendor == "sqlite"
        else url_of(os.environ["TUNEBOARD_TEST_DATABASE_URL"], str(name))
    )
    return environment(settings.VAR, url) | {"REDIS_URL": settings.REDIS_URL, "TUNEBOARD_STORAGE": settings.STORAGE}


@pytest.fixture(autouse=True)
def own_refusals() -> Iterator[None]:
    """The audit log has only some of many refusals in a minute: those of other tests don't count."""
    before = audit._refusals
    audit._refusals = Refusals()
    yield
    audit._refusals = before


@pytest.fixture(scope="session")
def site_maker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteMaker]:
    """Makes sites. `prepared()` has what the first start makes, `empty()` has nothing: no folder, and no table."""
    maker = SiteMaker(lambda: tmp_path_factory.mktemp("site") / "var", os.environ.get("TUNEBOARD_TEST_DATABASE_URL"))
    yield maker
    maker.close()


@pytest.fixture(scope="session")
def live_site(site_maker: SiteMaker) -> LiveSite:
    """The whole site as `manage.py up --no-demo` starts it: web, workers and broker. Tests must not break it.

    A minute of each benchmark would prove no more than a second of it.
    """
    site = site_maker.prepared()
    site.env["TUNEBOARD_BENCHMARK_S"] = "1"
    site.start()
    return site


@pytest.fixture
def new_site(site_maker: SiteMaker) -> Iterator[LiveSite]:
    """A site that isn't running, with nothing in its database, that the test may break."""
    site = site_maker.prepared()
    yield site
    site.close()


@pytest.fixture
def empty_site(site_maker: SiteMaker) -> Iterator[LiveSite]:
    """A site that was never started: for tests of what the first start or command makes. It takes seconds longer."""
    site = site_maker.empty()
    yield site
    site.close()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Debian's Chromium. Without it browser tests are skipped; in CI they fail."""
    try:
        return chromium.executable()
    except chromium.NoBrowser as missing:
        reason = f"NO BROWSER TEST RAN: {missing}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Any]:
    """Debian's Chromium, for one module: Playwright keeps an event loop in this thread, which breaks async tests."""
    with pytest.MonkeyPatch.context() as patch, chromium.browser(*CHROMIUM) as started:
        # Django sees Playwright's event loop and takes plain ORM calls for calls from a coroutine.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield started


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page with a fresh profile. The test fails if a script raises an error or the page violates its CSP."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(f"script error: {error}"))
    page.on("console", lambda message: errors.extend([message.text] * ("Content Security Policy" in message.text)))
    yield page
    context.close()
    assert not errors, "\n".join(errors)


UNDRAWN = """window.Plotly = {
    Icons: {}, Plots: { resize() {} },
    async react(element, data, layout) { Object.assign(element, { data, layout, on() {} }); },
    async extendTraces() {}, async relayout() {}, async restyle() {}, async update() {},
};"""


@pytest.fixture
def without_charts(page: Any) -> None:
    """For tests of anything else on a chart's page: to load Plotly and to draw takes two seconds of a core."""
    page.context.route(
        "**/plotly.min*.js", lambda route: route.fulfill(body=UNDRAWN, content_type="text/javascript; charset=utf-8")
    )


@pytest.fixture
def signed_in(live_site: LiveSite, page: Any) -> Any:
    """A page signed in to `live_site` as its admin."""
    page.context.add_cookies(live_site.cookies)
    return page


@pytest.fixture(scope="session")
def project_root() -> Path:
    return Path(settings.BASE_DIR)
