"""A page's module and what it imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Template

from dashboard.templatetags import modules

SCRIPTS = Path(settings.BASE_DIR) / "static/js"


def shown(path: str) -> str:
    return Template("{% load modules %}{% module path %}").render(Context({"path": path}))


def test_it_asks_at_once_for_all_that_a_module_imports() -> None:
    links = re.findall(r'<link rel="modulepreload" href="[^"]*?js/(\w+)[^"]*">', shown("js/run.js"))
    assert {"charts", "units", "live"} <= set(links), "units is imported by charts too"
    assert len(links) == len(set(links))
    assert "run" not in links
    assert re.search(r'<script type="module" src="[^"]*js/run[^"]*\.js"></script>$', shown("js/run.js"))


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.js")), ids=lambda path: path.name)
def test_it_finds_every_static_import(script: Path) -> None:
    written = {
        line.rpartition("./")[2].rstrip('";') for line in script.read_text().splitlines() if line.startswith("import ")
    }
    assert {f"js/{name}" for name in written} <= set(modules.imported(f"js/{script.name}"))


def test_a_module_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match=r"js/nothing\.js"):
        modules.imported("js/nothing.js")
