"""The documents agree with the code: commands, settings, pins, links."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from packaging.requirements import Requirement

from tuning.version import VERSION

LOCKS = ("requirements.lock", "tests/requirements.lock")
OURS = sorted(name for name, app in get_commands().items() if app in ("dashboard", "tuning", "tests.benchmarks"))


def settings_read(root: Path) -> set[str]:
    """The environment variables that dashboard/settings.py reads."""
    return {
        str(node.args[0].value)
        for node in ast.walk(ast.parse((root / "dashboard/settings.py").read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def requirements(path: Path) -> list[Requirement]:
    """Requirements of the file, without their hashes."""
    lines = (re.sub(r"#.*|--hash=\S+|\\$", "", line).strip() for line in path.read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def hashes(path: Path) -> dict[str, set[str]]:
    """Hashes by name and version."""
    entries = re.findall(r"^(\S+==[^\s;]+)(.*(?:\n +.*)*)", path.read_text(), re.MULTILINE)
    return {pin: set(re.findall(r"--hash=(\S+)", rest)) for pin, rest in entries}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_command_has_its_section(project_root: Path) -> None:
    sections = re.findall(r"^## (\S+)$", (project_root / "docs/commands.md").read_text(), re.MULTILINE)
    assert sorted(sections) == OURS


@pytest.mark.parametrize("name", [name for name in OURS if name != "tune"])
def test_every_option_of_a_command_is_documented(project_root: Path, name: str) -> None:
    text = (project_root / "docs/commands.md").read_text()
    section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    from_django = {
        "--version",
        "--settings",
        "--pythonpath",
        "--traceback",
        "--no-color",
        "--force-color",
        "--skip-checks",
    }
    documented = set(re.findall(r"--[a-z-]+", section)) | from_django | {"--verbosity", "--help"}
    options = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
    assert options <= documented


def test_every_setting_has_its_row_and_every_row_its_setting(project_root: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (project_root / "docs/settings.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(settings_read(project_root))


def test_the_tests_ignore_every_setting_of_the_environment(project_root: Path) -> None:
    text = (project_root / "tests/settings.py").read_text()
    ours = settings_read(project_root) - {"LOG_LEVEL"}
    assert [name for name in sorted(ours) if f'"{name}"' not in text] == []


def test_every_variable_of_compose_is_a_setting(project_root: Path) -> None:
    names = re.findall(r"^#? ?([A-Z_]+)=", (project_root / "docker/.env.example").read_text(), re.MULTILINE)
    limits = {"POSTGRES_MEMORY", "TUNEBOARD_MEMORY", "TUNEBOARD_TMP", "VALKEY_MEMORY"}
    assert set(names) - settings_read(project_root) == limits | {"COMPOSE_PROFILES", "TUNEBOARD_LOGS", "TUNEBOARD_PORT"}


def test_the_version_is_the_projects(project_root: Path) -> None:
    assert f'\nversion = "{VERSION}"\n' in (project_root / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("name", "lock"),
    [
        ("requirements.txt", "requirements.lock"),
        ("requirements.txt", "tests/requirements.lock"),
        ("tests/requirements.txt", "tests/requirements.lock"),
    ],
)
def test_every_pin_is_exact_and_in_the_lock(project_root: Path, name: str, lock: str) -> None:
    locked = {canonical(pin.name): str(pin.specifier) for pin in requirements(project_root / lock)}
    pins = {canonical(pin.name): str(pin.specifier) for pin in requirements(project_root / name)}
    assert pins
    assert all(specifier.startswith("==") for specifier in pins.values())
    assert pins == {pin: locked.get(pin) for pin in pins}


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_in_a_lock_is_exact_and_has_hashes(project_root: Path, lock: str) -> None:
    assert [str(pin) for pin in requirements(project_root / lock) if not str(pin.specifier).startswith("==")] == []
    entries = re.split(r"\n(?=\S)", (project_root / lock).read_text().strip())
    assert [entry for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}$", entry)] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index(project_root: Path, lock: str) -> None:
    assert not re.search(r"://|--(extra-)?index-url|--find-links|@ ", (project_root / lock).read_text())


def test_the_tests_lock_has_everything_of_the_other(project_root: Path) -> None:
    site, tests = (hashes(project_root / lock) for lock in LOCKS)
    assert site == {pin: tests.get(pin) for pin in site}


def anchors(path: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere(project_root: Path) -> None:
    documents = [*project_root.glob("*.md"), *(project_root / "docs").rglob("*.md")]
    assert project_root / "docs/design.md" in documents
    broken = [
        f"{path.name}: {link}#{anchor}"
        for path in documents
        for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", path.read_text())
        if not (target := path.parent / link if link else path).exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_ci_runs_the_readmes_test_command(project_root: Path) -> None:
    command = "python3 manage.py test"
    assert f"{command}\n" in (project_root / "README.md").read_text()
    assert f"{command} || status=$?\n" in (project_root / ".ci/run").read_text(), "without arguments"
