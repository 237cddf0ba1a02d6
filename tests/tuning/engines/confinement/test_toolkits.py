"""A confined process reads the CUDA toolkit that its PATH leads to, wherever that is, and nothing beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = """
import json, os, sys
from tuning.engines.confinement import confine
from tuning.engines.wire.question import Reach

in_force = confine(Reach())
print(json.dumps([in_force.files, [path for path in sys.argv[1:] if os.access(path, os.R_OK) and open(path).read()]]))
"""


def readable(tmp_path: Path, bin_folder: Path, *paths: Path) -> list[Any]:
    """Those of the paths that a confined process reads."""
    (tmp_path / "own").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, paths)],
        cwd=tmp_path / "own",
        env={
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(tmp_path / "own"),
        },
        stdout=subprocess.PIPE,
        check=True,
    )
    confined, found = json.loads(done.stdout)
    if confined is None:
        pytest.skip("this machine can't confine processes")
    return [Path(path) for path in found]


@pytest.mark.parametrize("has_nvvm", [True, False])
def test_it_reads_the_toolkit_and_nothing_beside_it(tmp_path: Path, has_nvvm: bool) -> None:
    toolkit = tmp_path / "opt" / "cuda-13.5"
    nvcc = toolkit / "bin" / "nvcc"
    files = [nvcc, toolkit / "include" / "cuda.h", toolkit / "secret" / "key", tmp_path / "opt" / "key"]
    files += [toolkit / "nvvm" / "bin" / "cicc"] if has_nvvm else []
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    nvcc.chmod(0o755)
    of_toolkit = [files[0], files[1], *files[4:]]
    assert readable(tmp_path, nvcc.parent, *files) == (of_toolkit if has_nvvm else [])
