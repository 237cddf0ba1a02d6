"""The names of collected static files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.core.management import call_command

IMPORT = re.compile(r'^(?:import|import .* from) "(\.[^"]+)"', re.MULTILINE)
HASHED = re.compile(r"\w+\.[0-9a-f]{12}\.js")


def imports(script: Path) -> set[Path]:
    return {(script.parent / path).resolve() for path in IMPORT.findall(script.read_text())}


def collected(folder: Path, settings: Any) -> Path:
    settings.STATIC_ROOT = folder
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": "dashboard.assets.storage.HashedModules"}}
    # Only our own files, which are quick to compress.
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    call_command("collectstatic", interactive=False, verbosity=0)
    return folder / "js"


def test_modules_import_each_other_by_hashed_names(tmp_path: Path, settings: Any) -> None:
    sources = Path(settings.BASE_DIR) / "static/js"
    collected_to = collected(tmp_path, settings)
    plain = {path.relative_to(sources) for script in sources.rglob("*.js") for path in imports(script)}
    assert {Path("charts/chart.js"), Path("site/htmx.js")} <= plain
    served = [path for path in collected_to.rglob("*.js") if HASHED.fullmatch(path.name)]
    hashed = {path for script in served for path in imports(script)}
    assert hashed <= set(served)
    names = {path.relative_to(collected_to).with_name(f"{path.name.partition('.')[0]}.js") for path in hashed}
    assert names == plain
