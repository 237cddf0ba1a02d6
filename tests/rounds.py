"""Which tests run in which round: every day or with `--all`, and on which database."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

DATABASE_FIXTURES = {"db", "transactional_db", "live_site"}
SLOW_FIXTURES = {"site_maker", "browser"}
SLOW_MARKS = ("tvm", "browser", "rare")
PAGES = ("tests/dashboard/views/", "tests/dashboard/management/")
"""What pages and commands show and do is what `tuning.reads` and `tuning.actions` give them, which are tested on both databases, as the API is."""
WITHOUT_DATABASE = tuple(
    f"tests/{folder}/" for folder in ("tuning/engines", "tuning/logs", "tuning/schedules", "dashboard/assets")
)
"""Folders that needn't be loaded on PostgreSQL: their tests use no database."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--everyday", metavar="FILE", type=Path, help="leave out rare tests, and write to FILE which were left out"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Loading the tests takes seconds of each process."""
    path = os.path.relpath(collection_path, config.rootpath)
    return True if _on_postgresql() and f"{path}/".startswith(WITHOUT_DATABASE) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Selects the tests of this round; on PostgreSQL these are only tests that use the database.

    Slow tests come first: if one of them ran last, the other cores would be idle.
    """
    _refuse_browser_tests_with_a_database(items)
    _refuse_a_database_where_none_is_expected(items)
    if _on_postgresql():
        _keep(config, items, uses_database)
    report: Path | None = config.getoption("--everyday")
    if report:
        left_out = _keep(config, items, is_everyday)
        report.write_text("".join(f"{count} {name}\n" for name, count in _named(left_out, items).items()))
    items.sort(key=lambda item: not is_slow(item))


def pytest_collection_finish() -> None:
    """Thousands of tests are hundreds of thousands of objects, which no collection of garbage needs to look at again."""
    gc.collect()
    gc.freeze()


def _keep(config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]) -> list[pytest.Item]:
    """Deselects the tests that aren't wanted, and returns them."""
    deselected = [item for item in items if not wanted(item)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = filter(wanted, items)
    return deselected


def _named(left_out: Sequence[pytest.Item], kept: Sequence[pytest.Item]) -> Counter[str]:
    """How many tests were left out: of each file that has no others, and else of each function."""
    some = {item.location[0] for item in kept}
    return Counter(item.nodeid.partition("[")[0] if item.location[0] in some else item.location[0] for item in left_out)


def _refuse_browser_tests_with_a_database(items: Sequence[pytest.Item]) -> None:
    if both := [item.nodeid for item in items if _has(item, "browser") and _has(item, "django_db")]:
        # Under Playwright's event loop, tests and fixtures have different connections, and one is never closed.
        raise pytest.UsageError(f"Browser tests use the site's database, not the test's own: {', '.join(both)}")


def _refuse_a_database_where_none_is_expected(items: Sequence[pytest.Item]) -> None:
    if using := [item.nodeid for item in items if item.nodeid.startswith(WITHOUT_DATABASE) and uses_database(item)]:
        raise pytest.UsageError(f"They would never run on PostgreSQL; see WITHOUT_DATABASE: {', '.join(using)}")


def _on_postgresql() -> bool:
    return "TUNEBOARD_TEST_DATABASE_URL" in os.environ


def _has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def uses_database(item: pytest.Item) -> bool:
    marked = any(_has(item, mark) for mark in ("django_db", "both_databases", "one_database"))
    return marked or bool(_fixtures(item) & DATABASE_FIXTURES)


def is_everyday(item: pytest.Item) -> bool:
    """Whether it runs without `--all`: browsers and TVM behave alike on both databases, so few such tests run on both."""
    if _has(item, "rare"):
        return False
    if not _on_postgresql():
        return True
    if _has(item, "one_database"):
        return False
    alike = any(_has(item, mark) for mark in SLOW_MARKS) or item.nodeid.startswith(PAGES)
    return not alike or _has(item, "both_databases")


def is_slow(item: pytest.Item) -> bool:
    return any(_has(item, mark) for mark in SLOW_MARKS) or bool(_fixtures(item) & SLOW_FIXTURES)
