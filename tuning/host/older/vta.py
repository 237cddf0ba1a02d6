"""What a launch for VTA asks of the interpreter's VTA build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tuning.engines.wire import target_fields
from tuning.engines.wire.engines import Engine
from tuning.engines.wire.legacy import Probed, Vta
from tuning.engines.wire.options.legacy import AutoTvmOptions
from tuning.host.targets import TargetDict
from tuning.validation import Invalid
from tuning.wording import target_label

ENGINE = "autotvm"
KEYS = ["vta", "cpu"]


def resolve(
    target: Mapping[str, Any], found: Probed, read: Callable[[str], dict[str, Any]], *, remote: bool
) -> TargetDict:
    """The target with what the interpreter's VTA build adds to it. `read` checks a target that is text. Raises `Invalid`."""
    build = _build(found)
    _check_place(build, remote=remote)
    own = {"keys": KEYS, "model": build.model}
    for name, value in own.items():
        if target.get(name, value) != value:
            raise Invalid({"target": f"The interpreter's VTA build has the {name} {value}, not {target[name]}."})
    host = target.get("host") or (found.cpu if build.simulates else build.host)
    if host is None:
        raise Invalid({"target": f"TVM {found.tvm} can't build for this machine's CPU, which VTA's simulator needs."})
    resolved = {**target, **own, "host": read(host) if isinstance(host, str) else host}
    return {"target": resolved, "device": "cpu", "label": target_label(resolved)}


def check(
    target: Mapping[str, Any], found: Probed, engine: Engine, options: Any, network_options: Mapping[str, Any]
) -> None:
    """Whether engine, options and network suit a target that may be VTA. Raises `Invalid`."""
    if target["kind"] != target_fields.VTA:
        return
    if engine.name != ENGINE:
        raise Invalid({"engine": f"{engine.title} has no schedules for VTA. Choose AutoTVM."})
    wrong = _wrong_options(options, _build(found))
    if network_options.get("layout", "NCHW") != "NCHW":
        wrong["network_options.layout"] = "VTA packs convolutions in NCHW only."
    if network_options.get("dtype", "float32") != "float32":
        wrong["network_options.dtype"] = "For VTA the network is quantized, which begins with float32."
    if wrong:
        raise Invalid(wrong)


def _build(found: Probed) -> Vta:
    if found.vta is None:
        raise Invalid(
            {
                "target": f"The interpreter has no VTA: its TVM {found.tvm} finds no VTA build ({found.no_vta or 'no reason given'})."
            }
        )
    return found.vta


def _check_place(build: Vta, *, remote: bool) -> None:
    if build.simulates and remote:
        raise Invalid(
            {"device": f"The interpreter's VTA build simulates VTA ({build.target}) on this machine: leave it out."}
        )
    if build.simulates and build.trouble:
        raise Invalid({"target": f"VTA's simulator doesn't work: {build.trouble}."})
    if not build.simulates and not remote:
        raise Invalid(
            {"device": f"The interpreter's VTA build is for a board ({build.target}): choose a tracker's device."}
        )


def _wrong_options(options: AutoTvmOptions, build: Vta) -> dict[str, str]:
    wrong = {}
    if options.ops is not None and "conv2d" not in options.ops:
        wrong["ops"] = "On VTA, packed convolutions are tuned and nothing else: choose conv2d, or leave it empty."
    if build.simulates or not options.vta_program:
        if options.vta_bitstream:
            wrong["vta_bitstream"] = "Nothing is programmed in this run, so it needs no bitstream."
    elif options.vta_bitstream and options.vta_bitstream not in build.bitstreams:
        known = ", ".join(build.bitstreams) or "none"
        wrong["vta_bitstream"] = f"VTA's cache has no such bitstream for {build.target}. It has: {known}."
    elif not options.vta_bitstream and build.bitstream and build.bitstream not in build.bitstreams:
        wrong["vta_program"] = (
            f"VTA's cache lacks the board's own bitstream, {build.bitstream}, and a run may not download it. "
            "Let VTA download it once (vta.bitstream.download_bitstream), name another, or program the board yourself."
        )
    return wrong
