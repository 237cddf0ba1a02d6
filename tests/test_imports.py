"""Who may import what. The rules are docs/design.md's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for package in ("dashboard", "tuning") for path in (ROOT / package).rglob("*.py"))
NO_DJANGO = {"django", "channels", "ninja", "sesame", "celery", "dashboard"}
"""Django, and what brings it along or needs it set up."""
OUR_DJANGO = {
    "tuning.models",
    "tuning.services",
    "tuning.jobs",
    "tuning.celery",
    "tuning.recorder",
    "tuning.supervisor",
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(source: str, package: str) -> Iterator[str]:
    """Every module, and every name taken from one, that the source imports anywhere, even inside a function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(part for part in (above, node.module) if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imports_of(path: Path) -> set[str]:
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return set(imported(path.read_text(), package))


def within(imports: set[str], modules: set[str]) -> set[str]:
    return {name for name in imports for module in modules if name == module or name.startswith(f"{module}.")}


def sources(*prefixes: str) -> list[Path]:
    return [path for path in SOURCES if f"{module_of(path)}.".startswith(tuple(f"{prefix}." for prefix in prefixes))]


@pytest.mark.parametrize("path", sources("tuning"), ids=module_of)
def test_the_domain_does_not_import_the_web(path: Path) -> None:
    assert within(imports_of(path), {"dashboard"}) == set()


@pytest.mark.parametrize("path", [path for path in SOURCES if path not in sources("tuning.engines")], ids=module_of)
def test_only_engines_import_tvm(path: Path) -> None:
    assert within(imports_of(path), {"tvm", "tvm_ffi"}) == set()


@pytest.mark.parametrize("path", sources("tuning.engines", "tuning.logs"), ids=module_of)
def test_engines_and_logs_import_no_django(path: Path) -> None:
    assert within(imports_of(path), NO_DJANGO | OUR_DJANGO) == set()


@pytest.mark.parametrize("path", sources("dashboard"), ids=module_of)
def test_the_web_calls_services_and_no_jobs(path: Path) -> None:
    assert within(imports_of(path), {"tuning.jobs"}) == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import tvm.ir", "tvm.ir"),
        ("def f():\n    from tvm import ir", "tvm.ir"),
        ("from . import jobs", "tuning.engines.jobs"),
        ("from .. import jobs", "tuning.jobs"),
        ("from ..jobs import tune", "tuning.jobs.tune"),
    ],
)
def test_every_form_of_import_is_seen(source: str, found: str) -> None:
    assert found in set(imported(source, "tuning.engines"))
