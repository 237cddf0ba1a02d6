"""Programs of `torch.export` become ONNX files, by an interpreter that has PyTorch: Tuneboard's own environment hasn't."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.pytorch import Converted, Converting, OpenDim, TorchEvent, TorchProbed, Unpacked, Unpacking
from tuning.validation import Invalid, wrong_dims

from . import interpreters, sandbox
from .interpreters import Asked

SETTING = "TUNEBOARD_TORCH_PYTHON"
PROBE = interpreters.Probe("tuning.engines.pytorch.probe", TorchEvent, TorchProbed)
NO_PYTHON = (
    "Programs of torch.export are converted by an interpreter with PyTorch, and this site has none. Its admin can name one in "
    f"{SETTING} (docs/pytorch.md). Or upload the model as ONNX: torch.onnx.export."
)


class Made(NamedTuple):
    """An ONNX file, and what made it of what."""

    path: Path
    saved_by: str
    """The version of PyTorch that saved the program."""
    versions: dict[str, str]
    """Of the packages that converted it."""


def look() -> Asked[TorchProbed] | None:
    """What the interpreter has, without waiting for it; None if none is named."""
    return None if settings.TORCH_PYTHON is None else interpreters.look_at(settings.TORCH_PYTHON, PROBE)


def convert(file: Path, values: Iterable[Mapping[str, int]], folder: Path) -> Made:
    """Write the program as ONNX into the folder, with its dimensions open under readable names. Each of `values` has one for each of them.

    Raises `Refused`, and `Invalid` for values of dimensions that the program doesn't leave open, or wasn't exported for.
    """
    copy, onnx = folder / "program.pt2", folder / "program.onnx"
    unpacking = Unpacking(path=str(file), to=str(copy), folder=str(folder), **sandbox.limits())
    found = sandbox.ask_once("tuning.engines.oneshot.exported", unpacking, Unpacked)
    if settings.TORCH_PYTHON is None:
        raise Refused(NO_PYTHON)
    for dims in values:
        _check_dims(dims, found.dims)
    names = {dim.symbol: name for name, dim in found.dims.items()}
    converting = Converting(path=str(copy), to=str(onnx), folder=str(folder), dims=names, **sandbox.limits())
    try:
        made = sandbox.ask_once(
            "tuning.engines.pytorch.converting", converting, Converted, python=settings.TORCH_PYTHON
        )
    except Refused as refused:
        raise Refused(f"{refused} (The program was saved by PyTorch {found.saved_by}.)") from refused
    return Made(onnx, found.saved_by, made.versions)


def _check_dims(given: Mapping[str, int], open_dims: Mapping[str, OpenDim]) -> None:
    wrong = wrong_dims(given, open_dims)
    for name, dim in open_dims.items():
        if name in given and not (dim.least or 1) <= given[name] <= (dim.most or given[name]):
            most = "" if dim.most is None else f" and at most {dim.most:,}"
            wrong[f"dims.{name}"] = f"The program was exported for at least {dim.least or 1:,}{most}."
    if wrong:
        raise Invalid(wrong)
