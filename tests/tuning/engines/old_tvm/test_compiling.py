"""Libraries by an older TVM, from records to figures. On this machine's CPU, `tests/tuning/work/test_legacy_runs.py` has it all."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Union

import pytest

from tests.tuning.engines import compiling
from tests.tuning.engines.trackers import KEY, RpcDevices
from tuning.engines.wire.compiling import BestRecord, Built, OlderBuild, Phase, Prove, Proven
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.legacy import relay_spec
from tuning.engines.wire.protocol import Finished, NetworkSpec, Remote
from tuning.host import sandbox

from .legacy_running import Legacy

pytestmark = pytest.mark.tvm
PROGRAMS = "tuning.engines.old_tvm.compiling"
TARGET = {"kind": "llvm"}


def ask(legacy: Legacy, program: str, question: Any, kind: Any) -> Any:
    """Raises `Refused`."""
    kinds: Any = Union[Phase, kind]
    with (legacy.folder / "printed").open("a+b") as printed:
        asked = sandbox.ask(
            f"{PROGRAMS}.{program}",
            question,
            kinds,
            limits=compiling.HERE,
            printed=printed,
            python=Path(legacy.python),
        )
        *_phases, answer = asked
    assert isinstance(answer, kind), answer
    return answer


def build(legacy: Legacy, records: list[BestRecord], network: str = "mlp") -> Built:
    folder = legacy.folder / "artifact"
    folder.mkdir(exist_ok=True)
    spec = NetworkSpec(network)
    question = OlderBuild(
        network=spec,
        relay=relay_spec(spec),
        target=TARGET,
        records=records,
        folder=str(folder),
        remote=False,
        engine=legacy.engine,
        no_rewrite=False,
        linker=None,
        **compiling.LIMITS,
    )
    built = ask(legacy, "building", question, Built)
    assert isinstance(built, Built)
    return built


def prove(legacy: Legacy, remote: Remote | None = None) -> Proven:
    question = Prove(
        network=NetworkSpec("mlp"),
        target=TARGET,
        folder=str(legacy.folder / "artifact"),
        seed=1,
        benchmark_s=0.5,
        remote=remote,
        quietly=False,
        **compiling.LIMITS,
    )
    proven = ask(legacy, "proving", question, Proven)
    assert isinstance(proven, Proven)
    return proven


@pytest.mark.rare
def test_a_library_is_proven_on_a_trackers_device_and_fits_no_other_network(autotvm: Legacy, tmp_path: Path) -> None:
    with autotvm.run(autotvm.start(trials_budget=2)) as engine:
        assert engine.to_the_end() == Finished("budget")
    records = compiling.best(engine)
    built = build(autotvm, records)
    assert {(one.run, one.trial) for one in built.used} <= {(one.run, one.trial) for one in records}
    with RpcDevices(tmp_path, autotvm.python) as devices:
        devices.add()
        devices.wait_until_there_are(1)
        proven = prove(autotvm, Remote(devices.address, KEY))
        assert devices.loaded(0) == 2
    assert proven.verified
    assert min(proven.rounds["tuned"] + proven.rounds["untuned"]) > 0

    with pytest.raises(Refused, match="records fits a function of the network"):
        build(autotvm, records, "squeezenet_v1.1")
