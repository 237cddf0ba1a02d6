"""Grey text in an empty field says what to search for or to add there. A default, or an example that doesn't say so, would pass for a value."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings

PROMPTS = {
    "Add a tag",
    "Name",
    "Name or network",
    "Name, address or reason",
    "Object",
    "Person",
    "Tag",
    "Task, network or hash",
    "Trial number",
    "number",
}
EXAMPLE = "e.g. "


def test_placeholders_are_no_values() -> None:
    pages = Path(settings.BASE_DIR, "templates").rglob("*.html")
    found = {text for page in pages for text in re.findall(r'placeholder="([^"]*)"', page.read_text())}
    assert not {text for text in found - PROMPTS if EXAMPLE not in text}
    scripts = Path(settings.BASE_DIR, "static", "js").rglob("*.js")
    assert not [script.name for script in scripts if "placeholder" in script.read_text()]
