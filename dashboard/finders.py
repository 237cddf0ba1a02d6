"""Finds plotly.min.js in the wheel of plotly, so that page and package are of one version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import FileSystemStorage

NAME = "plotly.min.js"
PREFIX = "plotly"


class PlotlyFinder(BaseFinder):
    """Of the wheel's files this one only: the others are of no use here, and larger."""

    def __init__(self) -> None:
        spec = find_spec("plotly")
        assert spec is not None
        assert spec.origin is not None
        self.folder = Path(spec.origin).parent / "package_data"
        self.storage = FileSystemStorage(location=self.folder)
        self.storage.prefix = PREFIX  # type: ignore[attr-defined]

    def check(self, **_options: Any) -> list[Any]:
        """Nothing to configure."""
        return []

    def find(self, path: str, find_all: bool = False, **_options: Any) -> Any:  # noqa: FBT001, FBT002  Django's signature
        """The file's path; an empty list for any other."""
        if path != f"{PREFIX}/{NAME}":
            return []
        found = str(self.folder / NAME)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        """The file, for collectstatic."""
        if not matches_patterns(NAME, ignore_patterns or ()):
            yield NAME, self.storage
