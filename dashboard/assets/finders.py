"""Static files from wheels that aren't Django apps, so that pages and packages have the same version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.storage import FileSystemStorage

from .wheels import folder_of


class WheelFinder(BaseFinder):
    """Files of one folder that match a pattern, under the package's name."""

    package: ClassVar[str]
    folder: ClassVar[str]
    pattern: ClassVar[str]

    def __init__(self) -> None:
        self.path = folder_of(self.package) / self.folder
        self.storage = FileSystemStorage(location=self.path)
        self.storage.prefix = self.package  # type: ignore[attr-defined]

    def check(self, **_options: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **_options: Any) -> Any:  # noqa: FBT001, FBT002  Django's signature
        """The path of one of the files; an empty list for others."""
        prefix, _, name = path.partition("/")
        if prefix != self.package or not fnmatchcase(name, self.pattern) or not (self.path / name).is_file():
            return []
        found = str(self.path / name)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        for name in sorted(path.name for path in self.path.glob(self.pattern)):
            if not matches_patterns(name, ignore_patterns or ()):
                yield name, self.storage


class PlotlyFinder(WheelFinder):
    """Only this script of the wheel: the others are larger and unused."""

    package, folder, pattern = "plotly", "package_data", "plotly.min.js"


class NinjaFinder(WheelFinder):
    """The files of the API's page. If Ninja were an app, every process would load it and Pydantic, 25 MB."""

    package, folder, pattern = "ninja", "static/ninja", "swagger-ui[.-][bc]*"  # the script and the stylesheet
