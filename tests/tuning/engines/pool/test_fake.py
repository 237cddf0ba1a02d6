"""The fake device, in a real measuring process."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.tuning.engines.pooling import Machine, pool_start
from tuning.engines.wire.pools.messages import FakeDevice, Probe, Probed, Ready
from tuning.engines.wire.protocol import Candidate, Failed, Measured

QUICK = FakeDevice(takes_s=0.01, noise=0.0, wants=3)


def candidate(id_: str, module: bytes) -> Candidate:
    return Candidate(id_, 0, module, [("TENSOR", "float32", [8])])


def test_it_makes_up_marked_answers_without_tvm(tmp_path: Path) -> None:
    with Machine(pool_start("toy", {}, fake=QUICK), tmp_path / "console") as machine:
        assert machine.until(Ready) == Ready(3)
        machine.ask(candidate("a", b"x"), candidate("b", b"y"), candidate("c", b"x"), Probe(candidate("d", b"x"), 2))
        first, second, third = (machine.until(Measured) for _ in range(3))
        probed: Probed = machine.until(Probed)
        libraries = {Path(area.path).name for area in psutil.Process(machine.process.pid).memory_maps()}
    assert not any("tvm" in name for name in libraries)
    assert [one.id for one in (first, second, third)] == ["a", "b", "c"]
    assert all(one.synthetic and one.machine == "toy" for one in (first, second, third, probed))
    assert first.run_secs == third.run_secs != second.run_secs, "the same module takes the same time"
    assert probed.run_secs == first.run_secs * 2
    assert first.measure_s == pytest.approx(0.01)


@pytest.mark.parametrize("line", [b"?\n", b'{"type":"probe"}\n', b'{"type":"candidate","id":"a"}\n'])
def test_what_isnt_a_start_is_refused(tmp_path: Path, line: bytes) -> None:
    with Machine(pool_start("toy", {}, fake=QUICK), tmp_path / "console") as machine:
        machine.until(Ready)
        machine.write(line)
        *_, last = machine
    assert isinstance(last, Failed)
    assert "can't be read" in last.error
