"""Uploaded models are stored completely or not at all, and read in a sandbox."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files import File

from tests import models
from tests.world import TARGET, make_run, make_user, task_infos
from tuning.actions import runs
from tuning.actions.networks import uploading
from tuning.actions.networks.chosen import stored
from tuning.engines.wire.errors import Refused
from tuning.engines.wire.inspecting import Inspected
from tuning.engines.wire.protocol import NetworkSpec, TensorInfo
from tuning.host import targets
from tuning.models import AuditEntry, Network, Project, networks_dir
from tuning.reads import network_list
from tuning.reads.network_list import UPLOADED
from tuning.validation import Conflict, Invalid
from tuning.work import inspection

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> None:
    settings.VAR = tmp_path


@pytest.fixture
def inspected(monkeypatch: pytest.MonkeyPatch) -> list[NetworkSpec]:
    """Every file counts as a valid model; collects the networks that were inspected."""
    asked: list[NetworkSpec] = []

    def inspect(network: NetworkSpec, *_: Any) -> Inspected:
        asked.append(network)
        return Inspected([TensorInfo("x", [1, 3], "float32")], 7, {"Conv": 2}, task_infos())

    monkeypatch.setattr(inspection, "inspect", inspect)
    return asked


def upload(data: bytes = b"model", file_name: str = "net.onnx", **more: Any) -> Network:
    return uploading.upload(File(io.BytesIO(data), file_name), Project.objects.default(), None, **more)[0]


def files() -> list[Path]:
    return sorted(networks_dir().glob("*"))


def nothing_was_kept() -> bool:
    return not Network.objects.exists() and not files()


def test_file_and_row_appear_together(inspected: list[NetworkSpec]) -> None:
    user = make_user()
    network, new = uploading.upload(
        File(io.BytesIO(b"model"), "my/Net v2.onnx"), Project.objects.default(), user, dims={"N": "4"}
    )
    assert new
    assert (network.name, network.kind, network.file_name, network.size) == ("Net-v2", "onnx", "Net v2.onnx", 5)
    assert (network.parameters, network.operators, network.dims) == (7, {"Conv": 2}, {"N": 4})
    assert network.inputs == [{"name": "x", "shape": [1, 3], "dtype": "float32"}]
    assert network.flop == sum(task.flop * task.weight for task in task_infos())
    assert network.uploaded_by == user
    assert network.file.read_bytes() == b"model"
    assert files() == [network.file]


def test_the_same_file_with_the_same_dimensions_is_the_same_network(inspected: list[NetworkSpec]) -> None:
    first = upload(dims={"N": 1})
    again, new = uploading.upload(
        File(io.BytesIO(b"model"), "other.onnx"), Project.objects.default(), None, name="other", dims={"N": 1}
    )
    assert (again, new, len(inspected)) == (first, False, 1)
    wider = upload(dims={"N": 2})
    assert (wider.name, wider.file) == ("net-2", first.file)
    assert len(files()) == 1


def test_several_values_of_a_dimension_make_a_network_each(inspected: list[NetworkSpec]) -> None:
    first = upload(dims={"N": "1, 8", "M": 3})
    assert first.name == "net-N1"
    assert [(one.name, one.dims) for one in Network.objects.order_by("pk")] == [
        ("net-N1", {"N": 1, "M": 3}),
        ("net-N8", {"N": 8, "M": 3}),
    ]
    assert AuditEntry.objects.filter(action="network.upload").count() == 2
    assert upload(dims={"N": [8, 1], "M": 3}).dims["N"] == 8, "both are known"
    assert upload(dims={"N": [1, 8, 32], "M": 3}) == first, "one is new"
    assert (len(inspected), Network.objects.count(), files()) == (3, 3, [first.file])


@pytest.mark.parametrize(
    ("dims", "field", "why"),
    [
        ({"N": "1,x"}, "dims.N", "Must be a whole number from 1 to 1,000,000, not 'x'."),
        ({"N": "1,"}, "dims.N", "Must be a whole number from 1 to 1,000,000, not ''."),
        ({"N": "2, 2"}, "dims.N", "Has a value twice."),
        ({"N": list(range(1, 10))}, "dims.N", "At most 8 values, not 9."),
        ({"N": "1,2", "M": "3,4"}, "dims.M", "Only one dimension can have several values."),
        ({"N": "1,2"}, "name", "Another network has that name."),
    ],
)
def test_several_values_are_refused_together(
    inspected: list[NetworkSpec], dims: dict[str, Any], field: str, why: str
) -> None:
    upload(b"other", name="mine-N2")
    with pytest.raises(Invalid) as refused:
        upload(dims=dims, name="mine")
    assert refused.value.fields == {field: why}
    assert Network.objects.count() == len(files()) == 1


def test_if_one_value_is_refused_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def inspect(network: NetworkSpec, *_: Any) -> Inspected:
        if network.file and network.file.dims["N"] == 8:
            raise Refused("It can't be reshaped.")
        return Inspected([TensorInfo("x", [1, 3], "float32")], 7, {"Conv": 2}, task_infos())

    monkeypatch.setattr(inspection, "inspect", inspect)
    with pytest.raises(Invalid, match="reshaped"):
        upload(dims={"N": [1, 8]})
    assert nothing_was_kept()


def test_a_file_is_deleted_with_its_last_network(inspected: list[NetworkSpec]) -> None:
    first, second = upload(dims={"N": 1}), upload(dims={"N": 2})
    uploading.delete(first)
    assert files() == [second.file]
    uploading.delete(second)
    assert nothing_was_kept()


def test_a_network_with_runs_stays(inspected: list[NetworkSpec]) -> None:
    network = upload()
    make_run(network=network)
    with pytest.raises(Conflict, match="It has runs"):
        uploading.delete(network)
    assert network.file.exists()
    (entry,) = AuditEntry.objects.filter(action="network.delete")
    assert (entry.refused, entry.object_name) == (True, network.name)
    with pytest.raises(Invalid, match="built-in"):
        uploading.delete(stored("mlp", {"batch": 1}, None))


@pytest.mark.parametrize("name", ["-x", "a b", "a/b", "x" * 101, "mlp", "taken", "é"])
def test_an_invalid_name_is_refused_before_the_file_is_read(inspected: list[NetworkSpec], name: str) -> None:
    upload(name="taken")
    with pytest.raises(Invalid) as refused:
        upload(b"another", name=name)
    assert list(refused.value.fields) == ["name"]
    assert len(inspected) == len(files()) == Network.objects.count() == 1


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "", True, None, [], "9" * 40, "1_000"])
def test_a_dimension_is_a_number(inspected: list[NetworkSpec], value: Any) -> None:
    with pytest.raises(Invalid) as refused:
        upload(dims={"N": value})
    assert list(refused.value.fields) == ["dims.N"]
    assert nothing_was_kept()


def test_a_file_that_is_too_large_is_refused_during_the_upload(inspected: list[NetworkSpec], settings: Any) -> None:
    settings.UPLOAD_MB = 1

    class Endless(io.BytesIO):
        given = 0

        def read(self, size: int | None = -1) -> bytes:
            assert size is not None
            self.given += size
            return b"x" * size

    endless = Endless()
    with pytest.raises(Invalid, match="1 MiB"):
        uploading.upload(File(endless, "net.onnx"), Project.objects.default(), None)
    assert endless.given <= 4 << 20
    assert nothing_was_kept()


def test_a_refusal_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Inspected:
        raise Refused("No.")

    monkeypatch.setattr(inspection, "inspect", refuse)
    with pytest.raises(Invalid) as refused:
        upload()
    assert refused.value.fields == {"file": "No."}
    assert nothing_was_kept()


@pytest.fixture
def meanwhile(inspected: list[NetworkSpec], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Upload this while the next upload is being inspected."""
    inspect = inspection.inspect

    def play(data: bytes, name: str) -> None:
        def slowly(*args: Any) -> Inspected:
            monkeypatch.setattr(inspection, "inspect", inspect)
            upload(data, name=name)
            return inspect(*args)

        monkeypatch.setattr(inspection, "inspect", slowly)

    return play


def test_two_concurrent_uploads_of_a_file_store_one_network(meanwhile: Callable[..., None]) -> None:
    meanwhile(b"model", "theirs")
    network, new = uploading.upload(
        File(io.BytesIO(b"model"), "net.onnx"), Project.objects.default(), None, name="mine"
    )
    assert (network.name, new) == ("theirs", False)
    assert (files(), Network.objects.count()) == ([network.file], 1)


def test_two_concurrent_uploads_of_a_name_store_one_network(meanwhile: Callable[..., None]) -> None:
    meanwhile(b"another", "mine")
    with pytest.raises(Invalid) as refused:
        upload(name="mine")
    assert list(refused.value.fields) == ["name"]
    assert files() == [Network.objects.get().file]
    assert files()[0].read_bytes() == b"another"


def test_a_failure_to_store_it_keeps_nothing(inspected: list[NetworkSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="space"):
        upload()
    assert nothing_was_kept()


def test_old_files_of_a_crashed_upload_are_removed(inspected: list[NetworkSpec], settings: Any) -> None:
    network = upload()
    half_read = Path(settings.FILE_UPLOAD_TEMP_DIR) / "tmp1234.upload.onnx"
    left = [networks_dir() / "incoming-1", networks_dir() / f"{'0' * 64}.onnx", half_read]
    for path in (*left, network.file):
        path.touch()
        os.utime(path, (0, 0))
    fresh = networks_dir() / "incoming-2"
    fresh.touch()
    assert uploading.tidy() == 3
    assert files() == sorted([network.file, fresh])


def test_it_is_listed_and_launched_by_name(inspected: list[NetworkSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "resolve", lambda _: {"target": TARGET, "device": "cpu", "label": "znver4"})
    network = upload(dims={"N": 2})
    offered = network_list.networks(None)[-1]
    assert (offered["name"], offered["family"], offered["id"]) == ("net", UPLOADED, network.pk)
    run = runs.launch({"network": "net"}, None, enqueue=False)
    assert (run.network, run.name) == (network, "net")
    spec = run.tuned_network.spec()
    assert spec.file is not None
    assert (spec.file.format, spec.file.path, spec.file.dims) == ("onnx", str(network.file), {"N": 2})
    with pytest.raises(Invalid) as refused:
        runs.launch({"network": "net", "network_options": {"batch": 1}}, None, enqueue=False)
    assert list(refused.value.fields) == ["network_options.batch"]


class TestInALimitedProcess:
    """With the real process."""

    pytestmark = pytest.mark.tvm

    def test_it_takes_a_model(self) -> None:
        network = upload(models.convnet("N").SerializeToString(), dims={"N": 2})
        assert network.inputs == [{"name": "x", "shape": [2, 3, 16, 16], "dtype": "float32"}]
        assert network.parameters == models.CONVNET_PARAMETERS
        assert network.operators["Conv"] == 1
        assert network.flop is not None
        assert network.flop > 2 * 2 * 16 * 16 * 8 * 27

    def test_it_takes_a_module(self) -> None:
        assert upload(models.relax_json(), "net.json").kind == "irmodule"

    def test_it_asks_for_the_dimensions_left_open(self) -> None:
        with pytest.raises(Invalid) as refused:
            upload(models.convnet("N").SerializeToString(), dims={"M": 2})
        assert refused.value.fields == {
            "dims.M": "The model has no open dimension of this name.",
            "dims.N": "The model leaves this dimension open: enter its value.",
        }
        assert nothing_was_kept()

    def test_it_refuses_a_model_with_nothing_to_tune(self) -> None:
        with pytest.raises(Invalid, match="no function to tune"):
            upload(models.constant().SerializeToString())
        assert nothing_was_kept()

    def test_it_says_that_a_model_needs_too_much_memory(self, settings: Any) -> None:
        settings.INSPECT_MEMORY_MB = 1024
        with pytest.raises(Invalid, match="1,024 MiB of memory"):
            upload(models.bomb().SerializeToString())
        assert nothing_was_kept()

    def test_it_ends_an_inspection_that_takes_too_long(self, settings: Any) -> None:
        settings.INSPECT_S = 0
        with pytest.raises(Invalid, match="longer than the 0 s"):
            upload(models.convnet().SerializeToString())
        assert nothing_was_kept()

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("import os; os.abort()", "killed by SIGABRT"),
            ("import sys; sys.exit('no tvm here')", "status 1. Its last line: no tvm here"),
            ("import time; time.sleep(60)", "longer than the 2 s"),
            ("while True: pass", "2 s"),
            ("raise MemoryError", "MiB of memory"),
        ],
    )
    def test_it_survives_whatever_happens_to_the_process(
        self, settings: Any, instead_of_python: Callable[[str], None], code: str, words: str
    ) -> None:
        settings.INSPECT_S = 2
        instead_of_python(code)
        with pytest.raises(Refused, match=words):
            inspection.inspect(NetworkSpec("mlp"))
