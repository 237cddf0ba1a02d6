"""A program of `torch.export`, as PyTorch 2.13 saved it, and what users and attackers make of one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONVNET = (Path(__file__).parent / "data" / "convnet.pt2").read_bytes()
"""A convolution 1 → 4 of 4 × 4, batch norm, ReLU and a linear layer to 3; the batch is open, at most 64. `torch.manual_seed(0)`."""
PARAMETERS = 4 * 9 + 4 + 64 * 3 + 3
"""With the batch norm folded into the convolution, as PyTorch does when it writes ONNX."""
ROOT = "convnet/"
PROGRAM = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
Entries = dict[str, bytes]


def entries(data: bytes = CONVNET) -> Entries:
    """What is in the archive, without its root folder."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def archive(found: Entries, compression: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as written:
        for name, data in found.items():
            written.writestr(ROOT + name, data)
    return made.getvalue()


def changed(change: Callable[[Any], object], name: str = PROGRAM) -> bytes:
    """The archive after `change` was called with the JSON of that entry."""
    found = entries()
    content = json.loads(found[name])
    change(content)
    return archive({**found, name: json.dumps(content).encode()})


def with_entry(name: str, data: bytes = b"x") -> bytes:
    return archive({**entries(), name: data})


def without(name: str) -> bytes:
    return archive({one: data for one, data in entries().items() if one != name})


def graph(program: Any) -> Any:
    return program["graph_module"]["graph"]
