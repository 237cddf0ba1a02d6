"""The archive of a program of `torch.export` is checked, and rewritten, before PyTorch reads it. No PyTorch here."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests import exported
from tests.exported import CONVNET, PROGRAM, WEIGHTS, changed, entries, graph, with_entry, without
from tuning.engines.oneshot.exported.__main__ import unpack
from tuning.engines.oneshot.exported.program import check_expression
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.pytorch import OpenDim, Unpacked, Unpacking


class Unpacks:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, data: bytes) -> Unpacked:
        path = self.folder / "given"
        path.write_bytes(data)
        return unpack(
            Unpacking(path=str(path), to=str(self.folder / "copy"), folder=str(self.folder), memory_mb=1024, cpu_s=10)
        )

    def copy(self, data: bytes) -> exported.Entries:
        self(data)
        return entries((self.folder / "copy").read_bytes())

    def refusal(self, data: bytes) -> str:
        with pytest.raises(Refused) as refused:
            self(data)
        return str(refused.value)


@pytest.fixture
def unpacks(tmp_path: Path) -> Unpacks:
    return Unpacks(tmp_path)


def test_it_tells_who_saved_the_program_and_what_it_leaves_open(unpacks: Unpacks) -> None:
    assert unpacks(CONVNET) == Unpacked("2.13.0+cpu", {"input.0": OpenDim("s31", 0, 64)})


def test_the_copy_has_the_weights_and_no_pickle(unpacks: Unpacks) -> None:
    given, copy = entries(), unpacks.copy(CONVNET)
    weights = [name for name in given if name.startswith("data/weights/weight_")]
    assert len(weights) > 4
    assert all(copy[name] == given[name] for name in weights)
    assert given["data/sample_inputs/model.pt"]
    assert copy["data/sample_inputs/model.pt"] == b""
    assert not any(given["data/sample_inputs/model.pt"] in data for data in copy.values())


def test_the_copy_has_nothing_that_pytorch_would_evaluate_or_look_up(unpacks: Unpacks) -> None:
    def add(program: Any) -> None:
        program["guards_code"] = ["__import__('os').abort()"]
        program["graph_module"]["treespec_namedtuple_fields"] = {"os": {"field_names": ["abort"]}}
        program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = '[1, {"type": "mine.Inputs"}]'
        graph(program)["nodes"][0]["metadata"]["source_fn_stack"] = "abort,os.abort"

    copy = unpacks.copy(changed(add))[PROGRAM].decode()
    assert "abort" not in copy
    assert "mine" not in copy
    assert json.loads(copy)["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] == ["input"]


def test_a_program_of_a_gpu_comes_to_the_cpu(unpacks: Unpacks) -> None:
    gpu = {"type": "cuda", "index": 0}

    def move(program: Any) -> None:
        for meta in graph(program)["tensor_values"].values():
            meta["device"] = gpu

    def move_weights(config: Any) -> None:
        for one in config["config"].values():
            one["tensor_meta"]["device"] = gpu

    assert b"cuda" not in unpacks.copy(changed(move))[PROGRAM]
    assert b"cuda" not in unpacks.copy(changed(move_weights, WEIGHTS))[WEIGHTS]


def test_inputs_may_be_called_as_fields_are(unpacks: Unpacks) -> None:
    def rename(program: Any) -> None:
        text = json.dumps(program).replace('"input"', '"target"')
        program.update(json.loads(text))
        program["graph_module"]["graph"]["tensor_values"]["metadata"] = graph(program)["tensor_values"]["relu"]

    copy = json.loads(unpacks.copy(changed(rename))[PROGRAM])
    assert list(unpacks(changed(rename)).dims) == ["target.0"]
    assert graph(copy)["tensor_values"]["metadata"]["dtype"] == 7


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pickle.dumps({"weight": 1}), "The file is a pickle, as torch.save writes them. Pickles can run any code"),
        (exported.archive({"data.pkl": b"", "data/0": b""}), "The file is a pickle, as torch.save"),
        (exported.archive({"data.pkl": b"", "code/net.py": b""}, zipfile.ZIP_DEFLATED), "The file is TorchScript"),
        (exported.archive({"serialized_exported_program.json": b"", "version": b"8.1"}), "saved by an older PyTorch"),
        (exported.archive({"models/mine.json": b"{}"}), "isn't called model"),
        (exported.archive({"model.onnx": b"x"}, zipfile.ZIP_DEFLATED), "a compressed archive. Unpack it"),
    ],
)
def test_what_else_it_may_be_is_told_with_advice(unpacks: Unpacks, data: bytes, words: str) -> None:
    assert words in unpacks.refusal(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK", "not a complete archive"),
        (CONVNET[:-100], "not a complete archive"),
        (exported.archive(entries(), zipfile.ZIP_DEFLATED), "was compressed or encrypted"),
        (with_entry("data/aotinductor/model/net.so"), "compiled code (data/aotinductor/model/net.so)"),
        (with_entry("data/weights/model.pt"), "data/weights/model.pt in the archive is a pickle"),
        (with_entry("data/constants/custom_obj_0"), "data/constants/custom_obj_0 in the archive is a pickle"),
        (with_entry("data/constants/opaque_obj_0"), "is a pickle"),
        (with_entry("run.py"), "entries that no program of torch.export needs: run.py"),
        (without("data/weights/weight_0"), "has no data/weights/weight_0"),
        (without(WEIGHTS), f"has no {WEIGHTS}"),
        (exported.archive({**entries(), "byteorder": b"big"}), "big-endian"),
        (exported.archive({**entries(), PROGRAM: b"{"}), "is no JSON"),
        (exported.archive({**entries(), PROGRAM: b"[" * 100_000}), "is no JSON"),
        (exported.archive({**entries(), PROGRAM: b"{}"}), "isn't as PyTorch writes it"),
    ],
)
def test_another_archive_is_refused_by_what_is_wrong_with_it(unpacks: Unpacks, data: bytes, words: str) -> None:
    assert words in unpacks.refusal(data)


def test_whatever_is_broken_is_refused(unpacks: Unpacks) -> None:
    random = Random(1611)
    for _ in range(100):
        data = bytearray(CONVNET)
        for _ in range(random.choice((1, 3, 20))):
            # Half of them in the directory, which is at the end.
            data[random.randrange(random.choice((0, len(data) - 1500)), len(data))] = random.randrange(256)
        with suppress(Refused):  # A time or a comment may have changed.
            unpacks(bytes(data))


def test_entries_that_overlap_are_refused(unpacks: Unpacks) -> None:
    """Each of a bomb's entries has the same bytes, so a small file unpacks to a large one."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in entries().items():
            archive.writestr(exported.ROOT + name, data)
        archive.writestr(f"{exported.ROOT}extra/0", b"x" * 100_000)
        last = archive.filelist[-1]
        for number in range(1, 9):
            twin = zipfile.ZipInfo(f"{exported.ROOT}extra/{number}")
            twin.header_offset, twin.file_size, twin.compress_size, twin.CRC = (
                last.header_offset,
                last.file_size,
                last.compress_size,
                last.CRC,
            )
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
    assert "overlap" in unpacks.refusal(made.getvalue())


def test_two_entries_of_one_name_are_refused(unpacks: Unpacks) -> None:
    made = io.BytesIO(CONVNET)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(made, "a") as archive:
        archive.writestr(exported.ROOT + PROGRAM, b"{}")
    assert "several entries called convnet/models/model.json" in unpacks.refusal(made.getvalue())


def call(name: str) -> Callable[[Any], None]:
    return lambda program: graph(program)["nodes"][0].update(target=name)


def shape(text: str) -> Callable[[Any], None]:
    def write(program: Any) -> None:
        graph(program)["tensor_values"]["input"]["sizes"][0]["as_expr"]["expr_str"] = text

    return write


def name_a_node(program: Any) -> None:
    graph(program)["nodes"][0]["outputs"][0]["as_tensor"]["name"] = "x = __import__('os').abort()"


def name_a_parameter(program: Any) -> None:
    program["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = '"); abort("'


def nest(program: Any) -> None:
    inner = {"nodes": [{"target": "torch.hub.load", "inputs": [], "outputs": [], "metadata": {}}]}
    graph(program)["nodes"][0]["inputs"][0]["arg"] = {"as_graph": {"name": "inner", "graph": inner}}


def own_class(program: Any) -> None:
    graph(program)["nodes"][0]["inputs"][0]["arg"] = {"as_custom_obj": {"name": "mine", "class_fqn": "mine.Net"}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (call("torch.hub.load"), "calls torch.hub.load"),
        (call("torch.ops.mine.net.default"), "calls torch.ops.mine.net.default"),
        (call("torch.ops.aten.from_file.default"), "calls torch.ops.aten.from_file"),
        (call("_operator.methodcaller"), "calls _operator.methodcaller"),
        (call("#triton:mine"), "calls #triton:mine"),
        (nest, "calls torch.hub.load"),
        (shape("__import__('os').abort()"), "no arithmetic: __import__"),
        (shape("s77 + x.y"), "no arithmetic"),
        (shape("Mul(Integer(2), Symbol('s77', positive=True, integer=True))"), "computed from others: input.0"),
        (own_class, "objects of classes of your own"),
        (name_a_node, "a name that PyTorch wouldn't write"),
        (name_a_parameter, "a name that PyTorch wouldn't write"),
        (lambda program: program.pop("graph_module"), "isn't as PyTorch writes it: KeyError"),
        (lambda program: program.update(range_constraints=[]), "isn't as PyTorch writes it"),
    ],
)
def test_a_program_that_isnt_only_a_network_is_refused(
    unpacks: Unpacks, change: Callable[[Any], object], words: str
) -> None:
    assert words in unpacks.refusal(changed(change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"use_pickle": True}, "0.weight is pickled"),
        ({"tensor_meta": None}, "0.weight is pickled"),
        ({"path_name": "../../models/model.json"}, "a file that isn't one of weights"),
        ({"path_name": 7}, "isn't as PyTorch writes it"),
    ],
)
def test_weights_are_plain_tensors_in_files_of_their_own(unpacks: Unpacks, change: dict[str, Any], words: str) -> None:
    data = changed(lambda config: config["config"]["0.weight"].update(change), WEIGHTS)
    assert words in unpacks.refusal(data)


@pytest.mark.parametrize(
    "text",
    [
        "s77",
        "Symbol('s77', positive=True, integer=True)",
        "Add(Mul(Integer(2), FloorDiv(Add(Symbol('s0', positive=True, integer=True), Integer(-1)), Integer(2))), Integer(2))",
        "Max(1, u0)",
    ],
)
def test_expressions_of_pytorch_are_arithmetic(text: str) -> None:
    check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "open('x')",
        "().__class__",
        "lambda: 0",
        "[s0]",
        "s77.name",
        "exec",
        "'x'",
        '"s0"',
        "1e9",
        "1" * 30_000,
        None,
    ],
)
def test_others_are_not(text: Any) -> None:
    with pytest.raises(Refused, match="no arithmetic"):
        check_expression(text)
