"""Output of commands in which names, errors and paths can't steer the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.management import BaseCommand
from django.core.management.base import OutputWrapper
from typing_extensions import override

from tuning.wording import printable

Style = Callable[[str], str]


class PlainOutput(OutputWrapper):
    """Escapes control characters. The command's own colors are added after that."""

    def write(self, msg: str = "", style_func: Style | None = None, ending: str | None = None) -> None:  # type: ignore[override]
        """Write as Django's does, whose signature differs from that of other streams."""
        super().write(printable(msg), style_func, ending)


class PlainCommand(BaseCommand):
    """Writes everything through `PlainOutput`, wherever Django takes the streams from: the process, or who calls the command."""

    @override
    def __setattr__(self, name: str, value: object) -> None:
        if name in ("stdout", "stderr") and isinstance(value, OutputWrapper):
            stream: Any = value._out  # noqa: SLF001 - Django has no other way to it
            value = PlainOutput(stream, value.ending)
        super().__setattr__(name, value)
