"""A tag for a page's JavaScript module that preloads everything the module imports, instead of one level at a time."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from pathlib import Path

from django import template
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

IMPORT = re.compile(r'^import (?:[^"]* from )?"(?P<path>\.\.?/[^"]+)";', re.MULTILINE)
"""The same imports that `dashboard.assets.storage` rewrites to hashed names."""


@register.simple_tag
def module(path: str) -> SafeString:
    """The `<script type="module">` of a static path, and a preload link for each module it imports."""
    links = format_html_join("\n", '<link rel="modulepreload" href="{}">', ((static(one),) for one in imported(path)))
    return format_html('{}\n<script type="module" src="{}"></script>', links, static(path))


@lru_cache
def imported(path: str) -> tuple[str, ...]:
    """Static paths of all direct and indirect imports, each once. Raises `FileNotFoundError`."""
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
    folder = posixpath.dirname(path)
    return [posixpath.normpath(posixpath.join(folder, name)) for name in IMPORT.findall(Path(source).read_text())]
