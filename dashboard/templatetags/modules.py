"""A page's JavaScript module, with all that it imports asked for at once instead of one after the other."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path, PurePosixPath

from django import template
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

IMPORT = re.compile(r'^import (?:[^"]* from )?"\./(?P<name>[^"]+)";', re.MULTILINE)
"""As dashboard.assets.storage names them anew."""


@register.simple_tag
def module(path: str) -> SafeString:
    """The script of this static path. It runs when the page has been read, as every module does."""
    links = format_html_join("\n", '<link rel="modulepreload" href="{}">', ((static(one),) for one in imported(path)))
    return format_html('{}\n<script type="module" src="{}"></script>', links, static(path))


@lru_cache
def imported(path: str) -> tuple[str, ...]:
    """Static paths of what it imports, and of what that imports, each once. Raises `FileNotFoundError`."""
    found: dict[str, None] = {}
    waiting = [path]
    while waiting:
        waiting += [one for one in _imports(waiting.pop()) if one not in found and one != path]
        found.update(dict.fromkeys(waiting))
    return tuple(found)


def _imports(path: str) -> list[str]:
    source = finders.find(path)
    if source is None:
        raise FileNotFoundError(f"There is no static file {path}.")
    folder = PurePosixPath(path).parent
    return [str(folder / name) for name in IMPORT.findall(Path(source).read_text())]
