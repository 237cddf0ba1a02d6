"""Runs, imports and compilations in a terminal: text that users chose is neither markup nor a control sequence."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from dashboard.management import foreground
from dashboard.presentation.terminal import ImportProgress, RunProgress, import_summary, summary
from tests.world import make_run, make_tasks
from tuning.models import Import, Project

pytestmark = pytest.mark.django_db
ATTACKS = (
    "[bold]big[/bold]",
    "[/]",
    "[link=file:///etc/passwd]click[/link]",
    "[red",
    ":rocket:",
    "\x1b[2J\x1b]52;c;eA==\x07",
    "\x1b]8;;file:///x\x1b\\y",
    "\x9b31mred",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch) -> tuple[Terminal, Any]:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    console = foreground.console(stream)
    console.width = 400
    return stream, console


def text_of(stream: Terminal) -> str:
    """What was written, without the console's own sequences: colors, and those that move and hide the cursor."""
    return re.sub(r"\x1b\[(\d+(;\d+)*m|\?25[lh]|\d*[AK])", "", stream.getvalue())


def assert_plain(stream: Terminal, attack: str) -> None:
    text = text_of(stream)
    assert re.sub(r"\x1b|\x07|\x9b", "", text) == text
    assert attack.partition("\x1b")[0].partition("\x9b")[0] in text
    assert "\x1b" not in attack or r"\x1b" in text
    assert "\x9b" not in attack or r"\x9b" in text


@pytest.mark.parametrize("attack", ATTACKS)
def test_names_of_runs_and_tasks_are_text(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(name=attack)
    assert run.claim()
    make_tasks(run, 1)
    run.tasks.update(name=attack)
    stream, console = shown(monkeypatch)
    with RunProgress(console, run) as progress:
        progress.update()
    assert_plain(stream, attack)
    stream, console = shown(monkeypatch)
    summary(console, run.to_full_dict())
    assert_plain(stream, attack)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_imports_say_is_text(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Import.objects.create(project=Project.objects.default(), skipped=[{"file": attack, "reason": attack}])
    stream, console = shown(monkeypatch)
    with ImportProgress(console, source) as progress:
        progress.update()
    import_summary(console, source)
    assert_plain(stream, attack)


@pytest.mark.parametrize("attack", ATTACKS)
def test_errors_are_text(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, console = shown(monkeypatch)
    console.print(attack, style="yellow")
    assert_plain(stream, attack)
