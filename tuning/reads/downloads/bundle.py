"""A compilation's library with all that belongs to it, in one zip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files

from zipstream import ZipStream

from tuning.models import Compilation, Network
from tuning.reads.artifacts import library_file, manifest_file
from tuning.reads.files import File, joined

APACHE = "https://www.apache.org/licenses/LICENSE-2.0"
INSIDE = """What is in {library}, and under which licenses

1. Code that TVM {version} generated for the network, with what TVM puts into each library. TVM has the Apache License 2.0
   ({apache}); its license and its notice are below.
2. The constants of the network {network}, such as its weights. {weights}

It was linked by {linker}. TVM's runtime, which it needs, isn't in it: the programs say how to install that.
"""
RANDOM = "Tuneboard has drawn them at random: they are nobody's work."
UNKNOWN = "Their license isn't known here: ask those who made the model before you pass the library on."


def bundle_file(compilation: Compilation, library: str, programs: Mapping[str, str]) -> File:
    """The library under the name `library`, its manifest with proof and latest benchmark, the programs by name, and the licenses.

    Raises `Conflict` when there is no library.
    """
    built, latest = library_file(compilation), compilation.latest
    manifest = json.loads(b"".join(manifest_file(compilation).pieces))
    # The library hardly shrinks, and only a zip that isn't compressed has a size that is known in advance.
    zipped = ZipStream(sized=True)
    zipped.add(built.pieces, library, size=built.size)
    zipped.add(json.dumps(manifest | _measured(compilation), indent=2) + "\n", "manifest.json")
    for name, text in programs.items():
        zipped.add(text, name)
    zipped.add(_licenses(compilation, library, manifest), "LICENSES.txt")
    name = f"compilation-{compilation.pk}.zip"
    version = f"{name} {compilation.sha256} {compilation.verified} {latest.pk if latest else 0}"
    return File(name, "application/zip", version, joined(zipped), len(zipped))


def _measured(compilation: Compilation) -> dict[str, object]:
    """The proof and the latest benchmark, which come after the manifest was written; null if there was none."""
    shown = compilation.to_dict()
    proof = {name: shown[name] for name in ("verified", "max_abs_error", "max_rel_error", "tolerance")}
    return {
        "proof": None if compilation.verified is None else proof,
        "benchmark": shown["benchmarks"][0] if shown["benchmarks"] else None,
    }


def _licenses(compilation: Compilation, library: str, manifest: Mapping[str, str]) -> str:
    network = compilation.run.tuned_network
    inside = INSIDE.format(
        library=library,
        version=compilation.versions.get("apache-tvm", "of the run"),
        apache=APACHE,
        network=network.name,
        weights=RANDOM if network.kind == Network.Kind.BUILTIN else UNKNOWN,
        linker=manifest.get("linker", "a linker that isn't recorded"),
    )
    texts = [f"{'-' * 80}\nTVM's {name}\n\n{text}" for name in ("LICENSE", "NOTICE") if (text := _of_tvm(name))]
    return "\n".join([inside, *texts])


def _of_tvm(name: str) -> str | None:
    """A file of the installed TVM; None if there is none."""
    try:
        found = [file for file in files("apache-tvm") or () if file.parts[-2:] == ("tvm", name)]
    except PackageNotFoundError:
        return None
    return found[0].read_text(encoding="utf-8") if found else None
