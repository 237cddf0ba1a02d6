"""What a launch asks of an interpreter's older TVM: a target that it can tune for, and what it needs for the rest."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuning.engines.wire import target_fields
from tuning.engines.wire.engines import Engine, EngineOptions
from tuning.engines.wire.legacy import Probed
from tuning.host import interpreters
from tuning.host.targets import TargetDict, checked
from tuning.validation import Invalid
from tuning.wording import target_label

from . import vta

LEVELS = (
    ("skylake-avx512", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"}),
    ("core-avx2", {"avx2", "fma", "bmi1", "bmi2"}),
)
"""CPUs by the features that they need, the best first. TOPI knows these names, and no newer CPU's, to choose a schedule."""
INTEGERS = ("num-cores", "vector-width", "opt-level", "max_num_threads", "max_threads_per_block", "thread_warp_size")
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w-]*)=(?P<value>\S+)")


def probed(name: str, engine: Engine) -> Probed:
    """What the interpreter has. Raises `Invalid` if it doesn't answer or hasn't got the engine."""
    asked = interpreters.ask(name)
    if not asked.found:
        raise Invalid({"interpreter": str(asked.error)})
    reasons: Mapping[str, str | None] = {str(name): why for name, why in asked.found.engines.items()}
    if why := reasons.get(engine.name, "it is missing"):
        raise Invalid({"interpreter": f"Its TVM {asked.found.tvm} has no {engine.title}: {why}."})
    return asked.found


def resolve(given: str | dict[str, Any], found: Probed, *, remote: bool) -> TargetDict:
    """The target for the older TVM of `this`, text as `llvm -mcpu=core-avx2`, JSON text or a dict. Raises `Invalid`."""
    target = _this_machine(found) if given == "this" else _fields(given)
    kind = str(target["kind"])
    if kind == target_fields.VTA:
        return vta.resolve(target, found, _fields, remote=remote)
    if not remote and (why := found.targets.get(kind, "it is missing")):
        raise Invalid({"target": f"TVM {found.tvm} can't use {kind} on this machine: {why}."})
    if kind == "llvm" and not remote:
        target = {**_triple(found), **target}
    device = "cpu" if kind == "llvm" else "cuda:0"
    return {"target": target, "device": device, "label": target_label(target)}


def check(found: Probed, engine: Engine, options: EngineOptions, network_kind: str) -> None:
    """Whether the older TVM has what options and network need. Raises `Invalid`."""
    wrong = {}
    if found.xgboost and (field := _learning(options)):
        wrong[field] = f"{found.xgboost} Choose one that doesn't learn."
    if trouble := network_trouble(found, engine, network_kind):
        wrong["network"] = trouble
    if wrong:
        raise Invalid(wrong)


def network_trouble(found: Probed, engine: Engine, kind: str) -> str | None:
    """Why the older TVM can't build networks of this kind; None if it can."""
    if kind == "builtin" and found.relay_testing:
        return f"TVM {found.tvm} can't build it: {found.relay_testing}."
    if kind == "onnx" and found.onnx:
        return f"TVM {found.tvm} can't read ONNX files: {found.onnx}."
    if kind == "irmodule":
        return f"{engine.title} tunes networks in Relay: this one is a Relax module. Upload it as ONNX."
    return None


def _learning(options: Any) -> str | None:
    """The option that asks for XGBoost."""
    for field in ("cost_model", "tuner"):
        if str(getattr(options, field, "")).startswith("xgb"):
            return field
    return None


def _this_machine(found: Probed) -> dict[str, Any]:
    if found.cpu is None:
        why = found.targets.get("llvm") or "it doesn't say why"
        raise Invalid({"target": f"TVM {found.tvm} can't build for this machine's CPU: {why}."})
    level = {"mcpu": level} if (level := _level()) else {}
    return {**found.cpu, **level}


def _triple(found: Probed) -> dict[str, Any]:
    """What a target for this machine's CPU must say to a TVM that compiles for another machine by itself."""
    return {name: value for name, value in (found.cpu or {}).items() if name == "mtriple"}


def _level() -> str | None:
    """The best of `LEVELS` that this machine is."""
    flags = _flags()
    return next((name for name, needed in LEVELS if needed <= flags), None)


def _flags() -> set[str]:
    """The features of an x86 CPU, as Linux calls them; empty elsewhere."""
    if platform.machine() != "x86_64" or not (cpuinfo := Path("/proc/cpuinfo")).exists():
        return set()
    return next((set(line.split()) for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), set())


def _fields(given: str | dict[str, Any]) -> dict[str, Any]:
    """The target's checked fields: whatever else it says might reach LLVM's options."""
    if isinstance(given, str) and not given.strip().startswith("{"):
        given = _parsed(given)
    text = checked(given, target_fields.OLDER_KINDS)
    if isinstance(text, str):  # A tag.
        raise Invalid({"target": f"{text!r} isn't a target of older TVMs: write llvm -mcpu=…, or JSON."})
    return text


def _parsed(text: str) -> dict[str, Any]:
    """A target as older TVMs print it. Raises `Invalid`."""
    kind, *options = text.split()
    if kind not in target_fields.OLDER_KINDS:
        raise Invalid({"target": target_fields.not_tuned(kind)})
    target: dict[str, Any] = {"kind": kind}
    for option in options:
        match = _OPTION.fullmatch(option)
        if not match:
            raise Invalid({"target": f"{option[:60]!r}: write options like -mcpu=core-avx2."})
        target[match["name"]] = _value(match["name"], match["value"])
    return target


def _value(name: str, value: str) -> Any:
    if name in ("mattr", "keys"):
        return value.split(",")
    return int(value) if name in INTEGERS and value.isdecimal() else value
