"""The archive of a program: a zip file whose entries are stored as they are, of JSON and raw weights."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tuning.engines.wire.errors import Refused

PICKLE = b"\x80"
"""How pickles begin that `torch.save` writes without an archive."""
HOW = 'torch.export.save(torch.export.export(model.eval(), (example,)), "model.pt2")'
PROGRAM = "models/model.json"
KNOWN = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/.*|\.format_version|\.storage_alignment|models/model\.json"
    r"|data/(weights|constants)/(model_(weights|constants)_config\.json|weight_\d+|tensor_\d+)"
    r"|data/sample_inputs/model\.pt|extra/.*"
)
"""Entries that a program may have. Example inputs are pickled; they and extra files are never read."""
PICKLED = re.compile(r"data/(weights|constants)/(model\.pt|(custom|opaque)_obj_\d+)")
NATIVE = re.compile(r"data/(aotinductor|executorch|mtia)/.*")


class Archive:
    """An open archive, which is checked so that reading it takes no more than its size. Raises `Refused`."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            if file.read(1) == PICKLE:
                raise Refused(_pickled("The file is a pickle, as torch.save writes them"))
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise Refused(f"The file is not a complete archive: {error}. Was it cut off?") from error
        entries = self._zip.infolist()
        if min((entry.header_offset for entry in entries), default=1):
            # The end of what was cut off may have another archive's directory: example inputs are one.
            raise Refused("The file is not a complete archive. Was it cut off?")
        self._root = _root(entry.filename for entry in entries)
        _check_names(frozenset(entry.filename.removeprefix(self._root) for entry in entries))
        _check_storage(entries, path.stat().st_size)

    def read(self, name: str) -> bytes:
        """Raises `Refused` if there is no such entry, or it is damaged."""
        try:
            return self._zip.read(self._root + name)
        except KeyError:
            raise Refused(f"The archive has no {name}, which a program of torch.export has.") from None
        except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError, OSError) as error:
            raise Refused(f"{name} in the archive is damaged: {error}") from error


def _check_storage(entries: list[zipfile.ZipInfo], size: int) -> None:
    if twice := [name for name, number in Counter(entry.filename for entry in entries).items() if number > 1]:
        raise Refused(f"The archive has several entries called {twice[0][:200]}.")
    if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
        raise Refused(
            f"The archive was compressed or encrypted after {HOW.partition('(')[0]} had written it: upload the original."
        )
    if sum(entry.file_size for entry in entries) > size:
        raise Refused("The archive's entries overlap.")


def _root(names: Iterable[str]) -> str:
    """The folder that has all entries, whose name PyTorch chooses."""
    roots = {name.partition("/")[0] for name in names if "/" in name}
    return f"{roots.pop()}/" if len(roots) == 1 else ""


def _check_names(names: frozenset[str]) -> None:
    if PROGRAM not in names:
        raise Refused(_other(names))
    if native := _first(NATIVE, names):
        raise Refused(
            f"The archive has compiled code ({native}), which is never loaded. Save the program alone: {HOW}."
        )
    if pickled := _first(PICKLED, names):
        raise Refused(_pickled(f"{pickled} in the archive is a pickle"))
    if unknown := sorted(name for name in names if not KNOWN.fullmatch(name)):
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise Refused(f"The archive has entries that no program of torch.export needs: {unknown[0][:200]}{more}.")


def _other(names: frozenset[str]) -> str:
    """What it is instead of a program."""
    if any(name.startswith("code/") for name in names) and "data.pkl" in names:
        return f"The file is TorchScript, which isn't read here. Export the model instead: {HOW}."
    if "data.pkl" in names:
        return _pickled("The file is a pickle, as torch.save writes them")
    if "serialized_exported_program.json" in names:
        return f"The program was saved by an older PyTorch, with pickled weights. Export it again with a recent one: {HOW}."
    if any(name.startswith("models/") for name in names):
        return f"The archive's program isn't called model, as torch.export.save calls it. Save it so: {HOW}."
    return "The file is a compressed archive. Unpack it and upload the model inside."


def _pickled(what: str) -> str:
    return f"{what}. Pickles can run any code, so none is ever read here. Export the model instead: {HOW}."


def _first(pattern: re.Pattern[str], names: frozenset[str]) -> str | None:
    return min((name[:200] for name in names if pattern.fullmatch(name)), default=None)
