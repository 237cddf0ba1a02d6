"""The VTA build of this interpreter: what it is for, and what a launch must know of it."""

import importlib
from pathlib import Path
from typing import Any, Dict, List, Optional

from tuning.engines.old_tvm.loading import in_one_line
from tuning.engines.old_tvm.pipes import Message

SIMULATORS = ("sim", "tsim")
"""Values of VTA's `TARGET` for which it simulates its hardware on this machine; any other names a board."""


def is_target(target: Message) -> bool:
    """Whether the target, as JSON, is VTA."""
    return target.get("kind") == "ext_dev" and target.get("device") == "vta"


def describe() -> Dict[str, Any]:
    """The fields of `wire.legacy.Vta`. Raises whatever importing VTA does."""
    env = importlib.import_module("vta").get_env()
    simulates = str(env.TARGET) in SIMULATORS
    own, bitstreams = (None, []) if simulates else _bitstreams()
    return {
        "target": str(env.TARGET),
        "model": str(env.MODEL),
        "host": str(env.target_host),
        "trouble": _simulator_trouble() if simulates else None,
        "bitstream": own,
        "bitstreams": bitstreams,
    }


def load_simulator() -> None:
    """Load the simulator's library into this process. Raises whatever VTA does, or `RuntimeError`."""
    simulator = importlib.import_module("vta.testing.simulator")
    if not simulator.enabled():
        raise RuntimeError("VTA's simulator isn't enabled: its library can't be loaded")


def bitstream_path(name: str) -> str:
    """A file beside VTA's own bitstream. Raises `ValueError` for one that isn't there."""
    path = _own_bitstream().with_name(name)
    if path.parent != _own_bitstream().parent or not path.is_file():
        raise ValueError(f"VTA's cache has no bitstream {name}")
    return str(path)


def _simulator_trouble() -> Optional[str]:
    try:
        load_simulator()
    except Exception as error:  # noqa: BLE001  whatever it raises is the answer
        return in_one_line(error)
    return None


def _bitstreams() -> Any:
    """The name of VTA's own bitstream, and those that its cache has; None and none if the build doesn't know a cache."""
    try:
        own = _own_bitstream()
    except Exception:  # noqa: BLE001  a board may be programmed in another way
        return None, []
    found: List[str] = sorted(path.name for path in own.parent.glob("*" + own.suffix) if path.is_file())
    return own.name, found


def _own_bitstream() -> Path:
    return Path(importlib.import_module("vta.bitstream").get_bitstream_path())
