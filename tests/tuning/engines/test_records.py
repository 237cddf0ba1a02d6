"""What TVM gets of a record that somebody brought, on each way to it."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.engines.running import Engine, start
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.protocol import NetworkSpec, TasksExtracted
from tuning.logs.meta_schedule import LOST, RECORDS, WORKLOADS
from tuning.records import RecordRefused

pytestmark = [pytest.mark.tvm, pytest.mark.filterwarnings("default")]  # Warnings are TVM's own.

CONV = NetworkSpec("conv2d", {"size": 8, "channels": 16})
CANARY = 'module asm ".globl canary\\0Acanary: ret"\ntarget triple = "x86_64-unknown-linux-gnu"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conv")


@pytest.fixture(scope="module")
def tuned(folder: Path) -> Iterator[Engine]:
    with Engine(start(folder / "work", network=CONV, trials_budget=4), folder / "console.log") as engine:
        engine.to_the_end()
        yield engine


@pytest.fixture(scope="module")
def record(tuned: Engine) -> str:
    return (
        min((trial for trial in tuned.trials if trial.latency_s), key=lambda trial: trial.latency_s or 0).record or ""
    )


@pytest.fixture
def target(tuned: Engine) -> Any:
    from tvm.target import Target

    (extracted,) = [event for event in tuned.seen if isinstance(event, TasksExtracted)]
    return Target(extracted.target)


def changed(text: str, change: Callable[[list[Any], list[Any]], None]) -> str:
    """The record after a change of its workload and its `[trace, run_secs, target, args_info]`."""
    workload, record = json.loads(text)
    change(workload, record)
    return json.dumps([workload, record])


def linked(_workload: list[Any], record: list[Any]) -> None:
    """Have TVM link LLVM's code into what it builds."""
    (instructions, _), block = record[0], '"' + CANARY.replace("\n", "\\0A") + '"'
    place = next(place for place, one in enumerate(instructions) if one[0] == "GetLoops") + 1
    loop = instructions[place - 1][3][0]
    instructions.insert(place, ["Annotate", [loop, block], ["pragma_import_llvm"], []])


def legalized(target: Any) -> Any:
    from tuning.engines import networks
    from tuning.engines.networks import extraction

    return extraction.legalized(networks.build(CONV).mod, target)


def test_native_code_in_a_record_is_neither_built_nor_shown_nor_measured(record: str, target: Any) -> None:
    from tuning.engines.meta_schedule.trust.rebuilding import candidate_of
    from tuning.engines.oneshot.applying import applied, with_algorithms
    from tuning.engines.oneshot.generating import generate
    from tuning.engines.oneshot.showing import show

    text = changed(record, linked)
    for use in (
        lambda: applied(legalized(target), target, [text]),
        lambda: with_algorithms(legalized(target), target, [text], in_parts=False),
        lambda: candidate_of(text),
    ):
        with pytest.raises(RecordRefused, match="its annotation 'pragma_import_llvm' isn't one that records may have"):
            use()
    for look in (show, generate):
        with pytest.raises(Refused, match="It can't be used: its annotation 'pragma_import_llvm'"):
            look(text)


def test_a_network_is_built_with_its_own_functions(record: str, target: Any) -> None:
    """The record says of its function only which one it is."""
    from tuning.engines.oneshot.applying import applied

    def empty(workload: list[Any], fields: list[Any]) -> None:
        workload[1] = "AAAA"
        fields[2] = {"kind": "llvm", "cl-opt": ["-nothing:bool=true"]}

    found = applied(legalized(target), target, [changed(record, empty), record])
    assert len(found.tuned) == 1
    assert list(found.used.values()) in ([0], [1])

    def another(workload: list[Any], _fields: list[Any]) -> None:
        workload[0] = "77"

    found = applied(legalized(target), target, [changed(record, another)])
    assert (found.tuned, found.used) == ([], {})


def nodes_changed(change: Callable[[list[dict[str, Any]]], None]) -> Callable[[list[Any], list[Any]], None]:
    def with_nodes(workload: list[Any], _fields: list[Any]) -> None:
        saved = json.loads(base64.b64decode(workload[1])[8:])
        change(saved["nodes"])
        text = json.dumps(saved).encode()
        workload[1] = base64.b64encode(struct.pack("<Q", len(text)) + text).decode()

    return with_nodes


def refer_to_itself(nodes: list[dict[str, Any]]) -> None:
    place = next(place for place, node in enumerate(nodes) if node["type"] == "ffi.Array" and node["data"])
    nodes[place]["data"] = [place]


def be_a_module(nodes: list[dict[str, Any]]) -> None:
    nodes[1]["type"] = "ffi.Module"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (refer_to_itself, "doesn't come before it"),
        (be_a_module, "can't be used: its workload has a part that isn't read here: 'ffi.Module'"),
    ],
)
def test_the_records_own_function_is_checked_where_it_is_needed(
    record: str, change: Callable[[list[dict[str, Any]]], None], reason: str
) -> None:
    from tuning.engines.oneshot.showing import show

    with pytest.raises(Refused, match=reason):
        show(changed(record, nodes_changed(change)))


def test_a_function_is_the_one_that_its_hash_names(record: str) -> None:
    from tuning.engines.oneshot.showing import show

    def another(workload: list[Any], _fields: list[Any]) -> None:
        workload[0] = str(int(workload[0]) + 1)

    with pytest.raises(Refused, match="isn't the function that its structural hash names"):
        show(changed(record, another))


def test_code_is_generated_for_targets_that_can_be_launched(record: str) -> None:
    from tuning.engines.oneshot.generating import generate

    def with_options(_workload: list[Any], fields: list[Any]) -> None:
        fields[2]["cl-opt"] = ["-x86-asm-syntax:int=1"]

    with pytest.raises(Refused, match="A target can't have 'cl-opt' here"):
        generate(changed(record, with_options))


def test_files_are_made_harmless_before_tvm_opens_them(tuned: Engine, folder: Path, tmp_path: Path) -> None:
    from tvm.s_tir import meta_schedule as ms

    from tuning.engines import records

    work = folder / "work"
    lines = (work / RECORDS).read_text().splitlines()
    index, record = json.loads(lines[0])
    linked([], record)
    foreign = json.dumps([1, json.loads(lines[1])[1]])
    unknown_target = json.loads(lines[2])
    unknown_target[1][2]["cl-opt"] = ["-x:bool=true"]
    spoiled = [json.dumps([index, record]), foreign, json.dumps(unknown_target), *lines[3:], '[0, "no record"]']
    (tmp_path / RECORDS).write_text("".join(f"{line}\n" for line in spoiled))
    workloads = (work / WORKLOADS).read_text()
    (tmp_path / WORKLOADS).write_text(workloads + '["1", "' + base64.b64encode(b"12345678{}").decode() + '"]\n')
    own = records.lines_of([ms.database.JSONDatabase(work_dir=str(work)).get_all_tuning_records()[0].workload.mod])
    messages = records.keep_usable(tmp_path, own)
    assert ["line 1" in messages[0], "line 2" in messages[1], "line 3" in messages[2], len(messages)] == [True] * 3 + [
        4
    ]
    kept = (tmp_path / RECORDS).read_text().splitlines()
    assert kept == [LOST, LOST, LOST, *lines[3:], LOST]
    assert len(ms.database.JSONDatabase(work_dir=str(tmp_path))) == len(kept)


def test_honest_files_stay_as_they_are(tuned: Engine, folder: Path) -> None:
    from tvm.s_tir import meta_schedule as ms

    from tuning.engines import records

    work = folder / "work"
    before = {name: (work / name).stat() for name in (RECORDS, WORKLOADS)}
    stored = [ms.database.Workload.from_json(json.loads(line)) for line in (work / WORKLOADS).read_text().splitlines()]
    assert records.keep_usable(work, records.lines_of(workload.mod for workload in stored)) == []
    assert {name: (work / name).stat() for name in before} == before


LARGE = ["inception_v3", "resnet-18", "resnet-50", "resnet3d-18", "mobilenet"]


@pytest.mark.parametrize(
    "name", ["mlp", "squeezenet_v1.1", *(pytest.param(name, marks=pytest.mark.rare) for name in LARGE)]
)
def test_the_functions_of_networks_pass_the_check(name: str, target: Any) -> None:
    """Those of all algorithms: an export of theirs can be imported elsewhere."""
    from tvm.s_tir import meta_schedule as ms

    from tuning.engines import networks
    from tuning.engines.networks import algorithms, extraction
    from tuning.engines.wire.options.rewrites import Rewrites
    from tuning.records import functions

    mod = networks.as_tuned(networks.build(NetworkSpec(name, {})), target, Rewrites())
    extracted = extraction.extract(extraction.legalized(mod, target), target)
    rivals = [rival.task for rival in algorithms.rivals(mod, target, extracted, in_parts=True)]
    assert extracted
    for task in (*extracted, *rivals):
        functions.check_line(
            json.dumps([str(part) for part in ms.database.Workload(task.dispatched[0]).as_json()]).encode()
        )
