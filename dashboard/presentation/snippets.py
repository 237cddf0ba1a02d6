"""Programs that load and run a downloaded library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.template.loader import render_to_string
from typing_extensions import TypedDict

from tuning.models import Compilation
from tuning.reads.artifacts import library_file
from tuning.wording import target_name

from .downloads import stem

CODES = {"int": "kDLInt", "uint": "kDLUInt", "float": "kDLFloat", "bfloat": "kDLBfloat", "bool": "kDLBool"}
"""DLPack's type codes by the prefix of TVM's dtypes."""


class SnippetDict(TypedDict):
    """A program that runs the downloaded library; save it as `file_name` in the same folder."""

    language: str
    title: str
    file_name: str
    text: str


def snippets(compilation: Compilation) -> list[SnippetDict]:
    """Programs for a published compilation.

    C++ only for CPUs, since for other devices it would have to copy inputs, and not for older TVMs, whose packages have no headers.
    """
    name = f"{stem(compilation.run)}_{Path(library_file(compilation).name).stem}"
    run = compilation.run
    both = run.is_meta_schedule and run.target["kind"] == "llvm"
    kinds = [("python", "Python", ".py"), ("cpp", "C++", ".cpp")][: 2 if both else 1]
    return [
        {
            "language": language,
            "title": title,
            "file_name": name + suffix,
            "text": rendered(compilation, name, language),
        }
        for language, title, suffix in kinds
    ]


def rendered(compilation: Compilation, name: str, language: str) -> str:
    """The program in `python` or `cpp`, for the library `NAME.so`."""
    target, versions = compilation.run.target, compilation.versions
    context = {
        "stem": name,
        "network": _tame(compilation.run.tuned_network.name),
        "target": _tame(target_name(target)),
        "tvm": _tame(versions.get("apache-tvm", "of the run")),
        "pins": " ".join(f"{pin}=={versions[pin]}" for pin in ("apache-tvm", "apache-tvm-ffi") if pin in versions),
        "threads": target.get("num-cores"),
        "device": "cuda" if target["kind"] == "cuda" else "cpu",
        "inputs": [_input(one) for one in compilation.inputs],
        "any_batch": bool(compilation.batches),
        "bfloat16": any(one["dtype"] == "bfloat16" for one in compilation.inputs),
    }
    template = language if compilation.run.is_meta_schedule else f"{language}_older"
    return render_to_string(f"snippets/{template}.txt", context)


def _input(tensor: dict[str, Any]) -> dict[str, str]:
    shape, dtype = tuple(map(int, tensor["shape"])), _tame(tensor["dtype"])
    kind, bits = re.match(r"([a-z]+)(\d*)", dtype).groups()  # type: ignore[union-attr]
    drawn = "standard_normal" if "float" in kind else "integers"
    arguments = f"{shape}" if "float" in kind else f"0, 2, {shape}"
    return {
        "name": _tame(tensor["name"]),
        "value": f'random.{drawn}({arguments}).astype("{dtype}")',
        "cpp_shape": f"{{{', '.join(map(str, shape))}}}",
        "cpp_type": f"DLDataType{{{CODES[kind]}, {bits or 8}, 1}}",
    }


def _tame(text: Any) -> str:
    """Text from a model's file, made safe for a one-line comment or string."""
    return re.sub(r"[^\w .:/+-]+", "?", str(text))[:100]
