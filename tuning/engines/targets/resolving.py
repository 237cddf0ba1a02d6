"""The target that a run is tuned for, and whether this machine can build for it and run it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tuning.engines.wire.target_fields import KINDS, TargetRefused, checked, not_tuned

from . import cuda

_CODE_FEATURES = re.compile(
    r"(sse|ssse|avx|amx|fma|f16c|xop|bmi|tbm|lzcnt|popcnt|movbe|adx|gfni|aes|vaes|pclmul|vpclmul|sha|cx16|"
    r"neon|sve|sme|dotprod|i8mm|bf16|fullfp16|lse|crc|crypto|v\d|rv|zv|[mafdcv]$)"
)
"""LLVM features that decide which instructions code contains. Others are tuning hints (`slow-incdec`, `fast-gather`) or not for compilers (`pconfig`)."""

_NOTABLE = ("avx512f", "avx2", "fma", "avx", "sve", "dotprod", "neon")
"""Well-known features that matter most for speed."""


@dataclass(frozen=True)
class Resolved:
    """A target that this machine can build for and, unless the device is remote, run."""

    target: dict[str, Any]
    device: str
    """What a run occupies while it measures: `cpu` or `cuda:0`."""


def resolve(asked: dict[str, Any] | str, *, remote: bool = False) -> Resolved:
    """Resolve `this` (machine's CPU), a tag, a target's dict or its JSON text. Raises `TargetRefused`.

    For a `remote` device, this machine need only build, and the target itself says how many cores the device has.
    """
    target = _parse(_this_machine() if asked == "this" else asked)
    kind = str(target.kind.name)
    if kind == "llvm":
        target = _with_cores(target, remote=remote)
        _check_known(target)
        if not remote:
            _check_runs_here(target)
    elif kind not in KINDS:  # A tag's.
        raise TargetRefused(not_tuned(kind))
    elif not remote:
        _check_cuda()
    return Resolved(_plain(target.export()), "cpu" if kind == "llvm" else "cuda:0")


def kind_of(asked: dict[str, Any] | str) -> str:
    """The kind of a target, without touching a device. Raises `TargetRefused`."""
    if isinstance(asked, dict):
        return str(asked.get("kind"))
    return "llvm" if asked == "this" else str(_parse(asked).kind.name)


def cores() -> int:
    """The number of physical cores that this process may use, by its affinity and its container's quota.

    The two threads of one core share its vector units, so TVM's runtime uses only one of them, too.
    """
    allowed = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    if physical := psutil.cpu_count(logical=False):
        allowed.append(physical)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        allowed.append(max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # There is no such file, or it says "max": no quota.
        pass
    return min(allowed)


def knows_float16(target: Any) -> bool:
    """Whether the target has an instruction to convert float16.

    Without one, an x86 CPU calls a function for every number. Of 8 random schedules of a 64 × 64 product the best then took 2.5 ms,
    compared to 20 µs, and another was stopped after 30 s.
    """
    x86 = str(target.kind.name) == "llvm" and _triple(target).startswith(("x86_64", "i386", "i686"))
    return not x86 or "f16c" in features(target)


def remarks(resolved: dict[str, Any], *, remote: bool) -> tuple[bool, str | None]:
    """Whether a resolved target has instructions for float16, and why its code will be slower here than it could be."""
    from tvm.target import Target

    target = Target(resolved)
    return knows_float16(target), None if remote else _unused_here(target)


def needs(resolved: dict[str, Any]) -> list[str]:
    """What a machine must have so that a resolved CPU target's code runs there: the architecture, and instructions. Empty for a GPU."""
    from tvm.target import Target

    target = Target(resolved)
    if str(target.kind.name) != "llvm":
        return []
    return [architecture(target), *sorted(_code_features(target))]


def _this_machine() -> dict[str, Any]:
    from tvm.target import codegen

    return {"kind": "llvm", "mcpu": str(codegen.llvm_get_system_cpu()), "num-cores": cores()}


def _parse(asked: dict[str, Any] | str) -> Any:
    """TVM's target. Whatever asks for one has its fields checked here, whether it was checked before or was stored by an earlier version."""
    from tvm.target import Target

    asked = checked(asked)
    try:
        return Target(asked)
    except Exception as error:
        raise TargetRefused(_in_plain_words(asked, error)) from error


def _in_plain_words(asked: dict[str, Any] | str, error: Exception) -> str:
    if isinstance(asked, str) and "/" in asked:
        return f"TVM doesn't know a target tag {asked}."
    reason = str(error).strip().split(" Target creation from ")[0].strip()
    return f"TVM can't read this target: {reason}"


def _with_cores(target: Any, *, remote: bool) -> Any:
    """Add the number of this machine's cores to a CPU target without one: MetaSchedule needs it to make design spaces."""
    if "num-cores" in dict(target.attrs):
        return target
    if remote:
        raise TargetRefused('Say how many cores the device has: {"kind": "llvm", …, "num-cores": 4}.')
    return _parse(_plain(target.export()) | {"num-cores": cores()})


def _check_known(target: Any) -> None:
    """Raises `TargetRefused` if LLVM can't generate the code."""
    from tvm.target import codegen

    attrs = dict(target.attrs)
    triple = _triple(target)
    arch = triple.partition("-")[0]
    if int(attrs.get("num-cores", 1)) < 1:
        raise TargetRefused("num-cores must be at least 1.")
    mcpu = attrs.get("mcpu")
    if mcpu is not None and not (mcpu and codegen.llvm_is_valid_cpu(mcpu, triple)):
        raise TargetRefused(f'LLVM doesn\'t know a CPU "{mcpu}" for {arch}.')
    enabled = features(target)
    unknown = [
        name[1:] for name in map(str, attrs.get("mattr", ())) if name.startswith("+") and name[1:] not in enabled
    ]
    if unknown:
        raise TargetRefused(f"LLVM doesn't know the CPU feature {', '.join(unknown)} for {arch}.")


def _check_runs_here(target: Any) -> None:
    from tvm.target import Target, codegen

    triple, here = _triple(target), str(codegen.llvm_get_system_triple())
    if triple.partition("-")[0] != here.partition("-")[0] or ("linux" in here and "linux" not in triple):
        raise TargetRefused(
            f"Code for {triple} can't run on this machine, which is {here}. "
            "To tune for another, choose a device of a tracker to measure on."
        )
    host = _this_machine()
    missing = sorted(name for name in features(target) - features(Target(host)) if _CODE_FEATURES.match(name))
    if missing:
        asked = dict(target.attrs).get("mcpu") or "this target"
        raise TargetRefused(
            f"Code for {asked} can't run here: this machine's CPU ({host['mcpu']}) lacks {', '.join(missing)}."
        )


def _triple(target: Any) -> str:
    """The target's triple, by default this machine's."""
    from tvm.target import codegen

    return str(dict(target.attrs).get("mtriple", codegen.llvm_get_system_triple()))


def architecture(target: Any) -> str:
    """What LLVM calls the architecture of a CPU target, such as `x86_64`."""
    return _triple(target).partition("-")[0]


def features(target: Any) -> set[str]:
    """The CPU features that LLVM may use for the target."""
    from tvm.target import codegen

    return {str(name) for name in codegen.llvm_get_cpu_features(target)}


def _code_features(target: Any) -> set[str]:
    return {name for name in features(target) if _CODE_FEATURES.match(name)}


def _check_cuda() -> None:
    import tvm

    if not tvm.cuda(0).exist:
        raise TargetRefused("This machine has no usable CUDA GPU, so nothing could be measured.")
    if cuda.compiler() is None:
        raise TargetRefused("This machine has no CUDA compiler: install nvcc, or the package cuda-python.")


def _plain(value: Any) -> Any:
    """TVM's containers as plain Python values."""
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "items"):
        # TVM derives `feature.…` by itself, and can't read back the ones that it exported.
        return {str(key): _plain(item) for key, item in value.items() if not str(key).startswith("feature.")}
    return [_plain(item) for item in value]


def _unused_here(target: Any) -> str | None:
    """For a CPU target that this machine can run: which of its features or cores the target doesn't use."""
    from tvm.target import Target

    host = _this_machine()
    here, given = Target(host), int(dict(target.attrs).get("num-cores", 0))
    if str(target.kind.name) != "llvm" or _code_features(target) - _code_features(here):
        return None
    unused = sorted(_code_features(here) - _code_features(target))
    if unused:
        known = [name for name in _NOTABLE if name in unused] or unused[:3]
        return (
            f"It doesn't use features of this machine's CPU ({host['mcpu']}) such as {', '.join(known)}: code tuned for "
            "this machine can be several times as fast."
        )
    return None if given == host["num-cores"] else f"It is for {given} of this machine's {host['num-cores']} cores."
