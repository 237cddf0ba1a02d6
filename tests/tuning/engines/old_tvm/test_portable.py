from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuning.engines import old_tvm, proof

FILES = sorted(path for package in (old_tvm, proof) for path in Path(str(package.__file__)).parent.rglob("*.py"))
OURS = ("tuning.engines.old_tvm", "tuning.engines.proof")
COME_WITH_TVM = {"ml_dtypes", "numpy", "tvm"}
GONE = {"imp", "distutils"}
NEWER_THAN_3_6 = {"contextvars", "dataclasses", "graphlib", "tomllib", "zoneinfo"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: "-".join(path.parts[-2:]))
def test_it_is_python_3_6(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("path", FILES, ids=lambda path: "-".join(path.parts[-2:]))
def test_it_imports_only_the_standard_library_and_what_comes_with_tvm(path: Path) -> None:
    allowed = (sys.stdlib_module_names | COME_WITH_TVM) - NEWER_THAN_3_6 - GONE
    assert set(_imported(path)) <= allowed
    assert "from __future__" not in path.read_text(), "Python 3.6 knows none that we would want"


def _imported(path: Path) -> Iterator[str]:
    """The top-level packages; what is of Python 3.6 itself aside."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".", maxsplit=1)[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and not str(node.module).startswith(OURS):
            yield str(node.module).split(".", maxsplit=1)[0]
