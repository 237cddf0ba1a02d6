from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.core.management import call_command

IMPORT = re.compile(r'(?:from|import) "\./([^"]+)"')
HASHED = re.compile(r"\w+\.[0-9a-f]{12}\.js")


def collected(folder: Path, settings: Any) -> Path:
    settings.STATIC_ROOT = folder
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": "dashboard.assets.storage.HashedModules"}}
    # Our own files are enough, and quick to compress.
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    call_command("collectstatic", interactive=False, verbosity=0)
    return folder / "js"


def test_it_lets_modules_import_each_other_by_hashed_names(tmp_path: Path, settings: Any) -> None:
    scripts = collected(tmp_path, settings)
    meant = {
        name for path in (Path(settings.BASE_DIR) / "static/js").iterdir() for name in IMPORT.findall(path.read_text())
    }
    assert {"charts.js", "htmx.js"} <= meant
    served = [path for path in scripts.iterdir() if HASHED.fullmatch(path.name)]
    imported = {name for path in served for name in IMPORT.findall(path.read_text())}
    assert {f"{name.partition('.')[0]}.js" for name in imported} == meant
    assert imported <= {path.name for path in served}
