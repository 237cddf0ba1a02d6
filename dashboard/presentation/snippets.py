"""Programs that run a library as it is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from tuning.compilations import library_file
from tuning.models import Compilation

from .downloads import stem

VALUES = {
    "bool": "random.integers(0, 2, {shape}).astype(bool)",
    "int": "random.integers(0, 2, {shape}, dtype={dtype!r})",
}
FLOATS = "random.standard_normal({shape}).astype({dtype!r})"


class SnippetDict(TypedDict):
    """A program that loads and runs the library as it is downloaded, kept beside it under `file_name`."""

    language: str
    title: str
    file_name: str
    text: str


def snippets(compilation: Compilation) -> list[SnippetDict]:
    """Of a compilation that has a library."""
    return [
        {"language": "python", "title": "Python", "file_name": f"{_stem(compilation)}.py", "text": _python(compilation)}
    ]


def _stem(compilation: Compilation) -> str:
    """That of the file that is downloaded."""
    return f"{stem(compilation.run)}_{Path(library_file(compilation).name).stem}"


def _python(compilation: Compilation) -> str:
    target, pins = compilation.run.target, _pins(compilation)
    threads = target.get("num-cores")
    lines = [
        f'"""Runs {compilation.run.network.name}, compiled for {target.get("mcpu") or target["kind"]}.',
        "",
        f"pip install {pins} numpy",
        '"""',
        "",
        *(["import os", ""] if threads else []),
        *([f'os.environ.setdefault("TVM_NUM_THREADS", "{threads}")', ""] if threads else []),
        "import numpy as np",
        "import tvm",
        "from tvm import relax",
        "",
        f"device = tvm.{'cuda' if target['kind'] == 'cuda' else 'cpu'}()",
        f'library = tvm.runtime.load_module("./{_stem(compilation)}.so")',
        'network = relax.VirtualMachine(library, device)["main"]',
        "",
        "random = np.random.default_rng(0)",
        *(f"{_variable(nth)} = {_value(one)}" for nth, one in enumerate(compilation.inputs)),
        f"outputs = network({', '.join(f'tvm.runtime.tensor({_variable(nth)}, device)' for nth, _ in enumerate(compilation.inputs))})",
        'for output in [outputs] if hasattr(outputs, "numpy") else outputs:',
        "    print(output.numpy().shape, output.numpy().dtype, output.numpy().ravel()[:5])",
    ]
    return "\n".join(lines) + "\n"


def _pins(compilation: Compilation) -> str:
    names = ("apache-tvm", "apache-tvm-ffi")
    return " ".join(f"{name}=={compilation.versions[name]}" for name in names if name in compilation.versions)


def _variable(nth: int) -> str:
    return f"input_{nth}"


def _value(tensor: dict[str, Any]) -> str:
    dtype = tensor["dtype"]
    kind = "bool" if dtype == "bool" else "int" if "int" in dtype else ""
    text = VALUES.get(kind, FLOATS).format(shape=tuple(tensor["shape"]), dtype=dtype)
    return f"{text}  # {tensor['name']}"
