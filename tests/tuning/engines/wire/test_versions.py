from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.tuning.engines.running import ROOT
from tuning.engines.wire import versions


@pytest.mark.parametrize("file", ["requirements.txt", "requirements.lock"])
def test_its_pins_are_those_that_are_installed(file: str) -> None:
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / file).read_text(), re.MULTILINE))
    assert {name: pinned[name] for name in versions.PINS} == versions.PINS


def test_the_right_pair_is_no_problem() -> None:
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
def test_another_pair_is_a_problem_with_a_way_out(
    found: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "installed", found.get)
    problem = versions.problem()
    assert problem
    assert words in problem
    assert "pip install -r requirements.lock" in problem


def test_the_command_says_nothing_when_all_is_well() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "tuning.engines.wire.versions"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ended.stdout == ""
    assert not re.search(r"\| +tvm", ended.stderr), "with a wrong pair, loading TVM may crash"
