"""`python -m tuning.engines.oneshot.exported` answers `Unpacking` with `Unpacked`, and writes the copy that PyTorch may read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import msgspec

from tuning.engines.oneshot import serving
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.pytorch import Unpacked, Unpacking

from . import program, weights
from .archive import PROGRAM, Archive


def unpack(question: Unpacking) -> Unpacked:
    """Raises `Refused`."""
    archive = Archive(Path(question.path))
    try:
        return _unpacked(archive, Path(question.to))
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise Refused(f"The program isn't as PyTorch writes it: {type(error).__name__}: {error}") from error


def _unpacked(archive: Archive, to: Path) -> Unpacked:
    if archive.read("byteorder") != b"little":
        raise Refused("The program's weights are big-endian, which isn't read here.")
    found = program.parsed(archive.read(PROGRAM), PROGRAM)
    clean = program.cleaned(found)
    with zipfile.ZipFile(to, "w") as copy:
        entries = {
            "archive_format": b"pt2",
            "archive_version": b"0",
            "byteorder": b"little",
            ".data/version": b"6\n",
            PROGRAM: json.dumps(clean).encode(),
            "data/sample_inputs/model.pt": b"",
        }
        for name, data in entries.items():
            copy.writestr(f"model/{name}", data)
        for kind in weights.FILES:
            _copy_tensors(archive, copy, kind)
    return Unpacked(program.saved_by(found), program.open_dims(clean))


def _copy_tensors(archive: Archive, copy: zipfile.ZipFile, kind: str) -> None:
    name = f"data/{kind}/model_{kind}_config.json"
    config, files = weights.checked(program.parsed(archive.read(name), name), kind)
    copy.writestr(f"model/{name}", json.dumps(config))
    for file in files:
        copy.writestr(f"model/data/{kind}/{file}", archive.read(f"data/{kind}/{file}"))


def _answer(question: Unpacking, pipe: serving.Pipe) -> None:
    pipe.step("Reading the archive")
    pipe.send(unpack(question))


def main() -> None:
    serving.serve(Unpacking, _answer, "The archive can't be read")


if __name__ == "__main__":
    main()
