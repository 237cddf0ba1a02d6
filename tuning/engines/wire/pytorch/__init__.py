"""Programs of `torch.export` (`.pt2`): what is asked of the process that unpacks one, and of PyTorch's interpreter.

The latter has no msgspec, so it reads and writes plain JSON.
"""

from __future__ import annotations

from typing import ClassVar, Union

import msgspec

from tuning.engines.wire import question


class Unpacking(question.Question, frozen=True):
    """Asks for what an archive's program is, and for a copy with nothing but what was checked."""

    path: str
    """The uploaded file."""
    to: str
    """The copy, in a folder that exists."""
    folder: str
    """That folder."""

    def reach(self) -> question.Reach:
        return question.Reach(reads=(self.path,), writes=(self.folder,))


class OpenDim(msgspec.Struct, frozen=True):
    """A dimension that the program leaves open."""

    symbol: str
    """Its name in the program."""
    least: int | None
    most: int | None
    """What it was exported for; null for any."""


class Unpacked(msgspec.Struct, tag="unpacked", frozen=True):
    saved_by: str
    """The version of PyTorch that saved it."""
    dims: dict[str, OpenDim]
    """Open dimensions by name, `INPUT.AXIS` of the first input that has it."""


class Converting(question.Question, frozen=True):
    """Asks for a program as an ONNX file. Dimensions stay open."""

    program: ClassVar[str] = "PyTorch"
    path: str
    """The checked copy."""
    to: str
    """The ONNX file, in a folder that exists."""
    folder: str
    """That folder."""
    dims: dict[str, str]
    """The names of open dimensions by their symbols."""

    def reach(self) -> question.Reach:
        """Without the copy itself: it is in the folder, where the process that wrote it may have left a link in its place."""
        return question.Reach(writes=(self.folder,))


class Converted(msgspec.Struct, tag="converted", frozen=True):
    versions: dict[str, str]
    """Of the packages that converted it."""


class TorchProbed(msgspec.Struct, tag="torch_probed", frozen=True):
    """What an interpreter has, asked before any upload is read."""

    versions: dict[str, str]


TorchEvent = Union[TorchProbed, question.Step]
