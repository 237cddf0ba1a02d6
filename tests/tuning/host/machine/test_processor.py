"""What Linux tells of the processors, and that what it doesn't tell stays unknown."""

from __future__ import annotations

import os
from pathlib import Path

from tuning.host.machine.processor import clock, processor


def files(root: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def test_a_machine_tells_how_its_processors_are_set(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: AMD EPYC 9654\ncpu MHz\t\t: 2400.0\n")
    given = {"cpu0__cpufreq__scaling_governor": "powersave", "cpu1__cpufreq__scaling_governor": "performance"}
    found = processor(files(tmp_path / "cpu", **given, intel_pstate__no_turbo="0", smt__active="1"), cpuinfo)
    assert found["model"] == "AMD EPYC 9654"
    assert (found["governor"], found["turbo"], found["smt"]) == ("performance, powersave", True, True)
    assert found["kernel"] == os.uname().release
    assert found["cpus"] == os.cpu_count()


def test_another_driver_tells_of_turbo_in_another_file(tmp_path: Path) -> None:
    assert processor(files(tmp_path, cpufreq__boost="0"))["turbo"] is False


def test_what_isnt_told_is_unknown(tmp_path: Path) -> None:
    found = processor(tmp_path, tmp_path / "cpuinfo")
    assert (found["model"], found["governor"], found["turbo"], found["smt"]) == (None, None, None, None)
    assert (clock(tmp_path)["mhz"], clock(tmp_path)["least_mhz"]) == (None, None), "never 0"


def test_frequencies_are_over_all_processors(tmp_path: Path) -> None:
    given = {"cpu0__cpufreq__scaling_cur_freq": "3000000", "cpu12__cpufreq__scaling_cur_freq": "1500500"}
    found = clock(files(tmp_path, **given, cpufreq__scaling_cur_freq="1"))
    assert (found["mhz"], found["least_mhz"]) == (2250, 1500)
