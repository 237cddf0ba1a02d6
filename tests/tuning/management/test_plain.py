"""What users chose can't steer the terminal of whoever runs a command."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import CommandError, CommandParser, get_commands, load_command_class

from tuning.management.plain import PlainCommand
from tuning.wording import printable

ATTACKS = {
    "clears the screen": "\x1b[2J",
    "sets the title": "\x1b]0;root@host\x07",
    "fills the clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "links": "\x1b]8;;file:///etc/passwd\x1b\\click\x1b]8;;\x1b\\",
    "by one byte": "\x9b2J",
    "goes back": "fine\rgone",
    "deletes": "a\x08\x7f",
    "turns around": "txt.\u202egpj\u2066",
}


class Speaking(PlainCommand):
    def handle(self, *_args: Any, **options: Any) -> None:
        self.stdout.write(options["text"])
        self.stderr.write(options["text"])


class Failing(PlainCommand):
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("text")

    def handle(self, *_args: Any, **options: Any) -> None:
        raise CommandError(options["text"])


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_it_is_shown_as_text(attack: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    Speaking().execute(
        text=f"a\tb\n{attack}", stdout=out, stderr=err, force_color=False, no_color=True, skip_checks=True
    )
    for written in (out.getvalue(), err.getvalue()):
        assert written == f"a\tb\n{printable(attack)}\n"
        assert written.replace("\t", "").replace("\n", "").isprintable()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_it_is_shown_as_text_in_errors(attack: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Failing().run_from_argv(["manage.py", "failing", attack, "--no-color"])
    assert capsys.readouterr().err == f"CommandError: {printable(attack)}\n"


def test_every_command_writes_plainly() -> None:
    ours = [(name, app) for name, app in get_commands().items() if app in ("dashboard", "tuning") and name != "test"]
    assert len(ours) > 15
    assert [name for name, app in ours if not isinstance(load_command_class(str(app), name), PlainCommand)] == []


def test_other_letters_stay() -> None:
    text = "Netz „ä“ 网络 … µs 🚀 a\u00a0b\n\t"
    assert printable(text) == text
