"""Builds a network with its best records: `PYTHON -m tuning.engines.old_tvm.compiling.building` answers `wire.compiling.OlderBuild`.

The same network without any record is built too, for the proof, and a manifest says what the library is.
"""

import hashlib
import json
import logging
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Tuple

from tuning.engines.old_tvm import loading, networks
from tuning.engines.old_tvm.pipes import Message
from tuning.engines.old_tvm.refusing import Refused

from .applying import Applied, applying
from .linking import Linker, linker, linking
from .serving import Pipe, serve

logger = logging.getLogger("tuneboard")
LIBRARY, UNTUNED, MANIFEST = "library.so", "untuned.so", "manifest.json"
"""As in `wire.compiling`."""
OPT_LEVEL = 3
LAYOUT_REWRITE = "AutoSchedulerLayoutRewrite"


def build(question: Message, pipe: Pipe) -> None:
    """Raises `Refused`, and whatever TVM does."""
    pipe.tell("loading")
    from tvm.target import Target

    try:
        target = Target(question["target"])
    except Exception as error:
        raise Refused(f"This TVM knows no such target: {loading.in_one_line(error)}") from error
    by, folder = linker(question["linker"], question["linker_name"]), Path(question["folder"])
    network = networks.build(question)
    pipe.tell("building", 0.0)
    tuned, applied = _tuned(question, network, target)
    pipe.tell("building", 0.5)
    untuned = _built(network, target)
    pipe.tell("linking", 0.0)
    _linked(tuned, folder / LIBRARY, by)
    pipe.tell("linking", 0.5)
    _linked(untuned, folder / UNTUNED, by)
    built = _described(question, network, applied, folder / LIBRARY)
    _log(question, built, by)
    (folder / MANIFEST).write_bytes(_manifest(question, built, by))
    pipe.send("built", **built)


def _tuned(question: Message, network: networks.Built, target: Any) -> Tuple[Any, Applied]:
    """The network with its records applied, and which were."""
    options: Dict[str, Any] = {}
    if question["engine"] == "auto_scheduler":
        options["config"] = {"relay.backend.use_auto_scheduler": True}
    if question["no_rewrite"]:
        options["disabled_pass"] = [LAYOUT_REWRITE]
    with applying(question) as applied:
        try:
            library = _built(network, target, **options)
        except Exception as error:
            raise Refused(f"This TVM can't build the network with its records: {loading.in_one_line(error)}") from error
    if not applied.used():
        count = len(question["records"])
        raise Refused(
            f"None of the {count} records fits a function of the network as this TVM builds it: "
            "they belong to other workloads, so nothing would be faster."
        )
    return library, applied


def _built(network: networks.Built, target: Any, **options: Any) -> Any:
    """With TVM's own schedules, unless a context says otherwise."""
    import tvm
    from tvm import relay

    mod, params = network
    with tvm.transform.PassContext(opt_level=OPT_LEVEL, **options):
        return relay.build(mod, target=target, params=params)


def _linked(library: Any, path: Path, by: Linker) -> None:
    """Object files are put next to the library, where they are removed even if this process is killed."""
    with tempfile.TemporaryDirectory(dir=str(path.parent)) as objects:
        library.export_library(str(path), fcompile=linking(by), workspace_dir=objects)


def _described(question: Message, network: networks.Built, applied: Applied, library: Path) -> Message:
    """The fields of `Built`."""
    records = question["records"]
    used = [
        {"function": name, **{key: records[nth][key] for key in ("run", "trial", "latency_s")}}
        for name, nth in applied.used()
    ]
    inputs, outputs = _tensors(network)
    return {
        "versions": loading.versions(),
        "used": used,
        "untuned": applied.untuned(),
        "inputs": inputs,
        "outputs": outputs,
        "size": library.stat().st_size,
        "sha256": _sha256(library),
    }


def _log(question: Message, built: Message, by: Linker) -> None:
    used, untuned = built["used"], built["untuned"]
    logger.info("Built by TVM %(apache-tvm)s under Python %(python)s.", built["versions"])
    logger.info(
        "%d of %d records are in use.", len({(one["run"], one["trial"]) for one in used}), len(question["records"])
    )
    for one in used:
        logger.info("%(function)s: trial %(trial)d of run %(run)d", one)
    for name in untuned:
        logger.info("%s: no record, TVM's own schedule", name)
    logger.info("Linked by %s.", by.name)


def _tensors(network: networks.Built) -> Tuple[List[Message], List[Message]]:
    """The network's inputs, which are those of its parameters that have no value, and its outputs."""
    from tvm import relay

    mod, params = network
    main = relay.transform.InferType()(mod)["main"]
    inputs = [one for one in main.params if str(one.name_hint) not in params]
    types = _leaves(main.ret_type)
    outputs = [_info("output" if len(types) == 1 else f"output_{nth}", one) for nth, one in enumerate(types)]
    return [_info(str(one.name_hint), one.checked_type) for one in inputs], outputs


def _leaves(kind: Any) -> List[Any]:
    return [leaf for field in kind.fields for leaf in _leaves(field)] if hasattr(kind, "fields") else [kind]


def _info(name: str, kind: Any) -> Message:
    return {"name": name, "shape": [int(extent) for extent in kind.shape], "dtype": str(kind.dtype)}


def _manifest(question: Message, built: Message, by: Linker) -> bytes:
    content = {
        "format": 1,
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **question["about"],
        "engine": question["engine"],
        "network": _network(question),
        "target": question["target"],
        "versions": built["versions"],
        "linker": by.name,
        "executor": "graph",
        "entry": "default",
        "load": 'tvm.contrib.graph_executor.GraphModule(tvm.runtime.load_module(FILE)["default"](DEVICE))',
        "inputs": built["inputs"],
        "outputs": built["outputs"],
        "coverage": {
            "functions": len(built["used"]) + len(built["untuned"]),
            "tuned": len(built["used"]),
            "untuned": built["untuned"],
        },
        "records": built["used"],
        "library": {"size": built["size"], "sha256": built["sha256"]},
    }
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"


def _network(question: Message) -> Message:
    network = question["network"]
    file = network["file"]
    if file is None:
        return {"name": network["name"], "options": network["options"]}
    digest = _sha256(Path(file["path"]))
    return {"name": network["name"], "format": file["format"], "dims": file["dims"], "sha256": digest}


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


if __name__ == "__main__":
    serve(build, "This TVM can't compile it")
