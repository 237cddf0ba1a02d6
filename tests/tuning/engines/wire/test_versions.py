from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.tuning.engines.running import ROOT
from tuning.engines.wire import versions


@pytest.mark.parametrize("file", ["requirements.txt", "requirements.lock", "tests/requirements.lock"])
def test_its_pins_are_those_of_the_requirements(file: str) -> None:
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / file).read_text(), re.MULTILINE))
    assert {name: pinned[name] for name in versions.PINS} == versions.PINS


def test_matching_versions_are_no_problem() -> None:
    assert versions.problem() is None
    assert set(versions.in_use()) >= {*versions.PINS, "python"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.15.post2"}, "apache-tvm-ffi 0.1.15.post2 is installed"),
        ({"apache-tvm": "0.26.0", "apache-tvm-ffi": "0.1.14.post1"}, "apache-tvm 0.26.0 is installed"),
        ({"apache-tvm-ffi": "0.1.14.post1"}, "apache-tvm isn't installed"),
    ],
)
def test_other_versions_are_a_problem_with_a_fix(
    found: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "installed", found.get)
    problem = versions.problem()
    assert problem
    assert words in problem
    assert "pip install -r requirements.lock" in problem


def test_the_command_prints_nothing_if_versions_match() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "tuning.engines.wire.versions"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ended.stdout == ""
    assert not re.search(r"\| +tvm", ended.stderr), "with mismatched versions, loading TVM may crash"
