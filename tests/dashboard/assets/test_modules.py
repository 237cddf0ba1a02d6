"""The tag that loads a page's module and preloads its imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Template

from dashboard.templatetags import modules

STATIC = Path(settings.BASE_DIR) / "static"
SCRIPTS = sorted((STATIC / "js").rglob("*.js"))


def rendered(path: str) -> str:
    return Template("{% load modules %}{% module path %}").render(Context({"path": path}))


def test_it_preloads_all_direct_and_indirect_imports() -> None:
    html = rendered("js/pages/run.js")
    links = re.findall(r'<link rel="modulepreload" href="[^"]*?js/(\w+/\w+)[^"]*">', html)
    assert {"charts/chart", "common/units", "live/sockets"} <= set(links), "chart imports units too"
    assert len(links) == len(set(links))
    assert "pages/run" not in links
    assert re.search(r'<script type="module" src="[^"]*js/pages/run[^"]*\.js"></script>$', html)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_finds_every_import(script: Path) -> None:
    lines = [line for line in script.read_text().splitlines() if line.startswith("import ")]
    targets = {(script.parent / line.split('"')[1]).resolve() for line in lines}
    found = {STATIC / path for path in modules.imported(script.relative_to(STATIC).as_posix())}
    assert targets <= found
    assert all(path.is_file() for path in found)


def test_a_missing_module_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match=r"js/missing\.js"):
        modules.imported("js/missing.js")
