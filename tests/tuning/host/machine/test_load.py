"""How busy this machine is: what others' processes use is told apart from ours."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from tuning.host.machine.load import Sampler
from tuning.host.machine.ours import COMMANDS, families, working_for

SPIN = "import time; end = time.process_time() + {cpu_s}\nwhile time.process_time() < end: pass"
WATCH = """
import sys, time
from pathlib import Path
from tuning.host.machine.load import Sampler
sampler = Sampler(Path(sys.argv[1]))
sampler.sample()
print("ready", flush=True)
sys.stdin.readline()
print(sampler.sample()["others_cores"])
"""
WORK = """
import sys, time
from pathlib import Path
from tuning.host.machine.ours import working_for
with working_for(Path(sys.argv[1])):
    print("ready", flush=True)
    time.sleep(600)
"""


def test_a_sample_has_what_the_kernel_says(tmp_path: Path) -> None:
    first = Sampler(tmp_path).sample()
    assert len(first["average"]) == 3
    assert 0 < first["memory_free"] <= psutil.virtual_memory().total
    assert 0 < first["disk_free"] < first["disk_total"]
    assert first["others_cores"] is None, "nothing was measured yet"


def test_what_our_own_children_use_isnt_others(tmp_path: Path) -> None:
    """Of a child's CPU seconds, none counts as others', also after it has ended."""
    ours, blind = Sampler(tmp_path), Watcher(Path())
    ours.sample()
    began = time.monotonic()
    spend(1.0)
    mine, theirs = ours.sample()["others_cores"], blind.others_cores()
    took = time.monotonic() - began
    assert mine is not None
    assert theirs is not None
    # Both see the same machine; the second process also sees our child's second.
    assert theirs * took - mine * took > 0.5


def test_what_a_command_in_the_foreground_uses_isnt_others(tmp_path: Path) -> None:
    """The site hasn't started it."""
    with working_for(tmp_path):
        site, blind = Watcher(tmp_path), Watcher(Path())
        began = time.monotonic()
        spend(1.0)
        to_the_site, to_another = site.others_cores(), blind.others_cores()
        took = time.monotonic() - began
    assert to_the_site is not None
    assert to_another is not None
    assert to_another * took - to_the_site * took > 0.5


def test_a_command_that_was_killed_is_forgotten(tmp_path: Path) -> None:
    command = subprocess.Popen([sys.executable, "-c", WORK, str(tmp_path)], stdout=subprocess.PIPE)
    assert command.stdout
    assert command.stdout.readline() == b"ready\n"
    mark = tmp_path / COMMANDS / str(command.pid)
    list(families(tmp_path))
    assert mark.exists()
    command.kill()
    command.communicate()
    assert len(list(families(tmp_path))) == 1
    assert not mark.exists()


def test_a_file_that_cannot_be_opened_holds_up_no_sample(tmp_path: Path) -> None:
    """As one of another user: without samples the site would take the machine for lost."""
    (tmp_path / COMMANDS / "4194305").mkdir(parents=True)
    assert len(list(families(tmp_path))) == 1


def test_a_command_that_the_asking_process_started_counts_once(tmp_path: Path) -> None:
    with working_for(tmp_path):
        assert len(list(families(tmp_path))) == 1


def spend(cpu_s: float) -> None:
    subprocess.run([sys.executable, "-c", SPIN.format(cpu_s=cpu_s)], check=True)


class Watcher:
    """A sampler in a process that isn't our ancestor: to it, we are others, unless we work for the site with its data folder."""

    def __init__(self, data: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WATCH, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def others_cores(self) -> float | None:
        said, _ = self._process.communicate("\n", timeout=60)
        return float(said)
