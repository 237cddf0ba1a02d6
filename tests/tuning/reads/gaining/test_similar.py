"""Which earlier workloads are similar to a task."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.world import make_run, measured_run, task_infos
from tuning.engines.wire.protocol import TaskInfo, TensorInfo
from tuning.models import Run, Task
from tuning.reads.gaining.similar import NEAREST, similar_workloads
from tuning.reads.library import tvm

pytestmark = pytest.mark.django_db


def ended(*rows: int, name: str = "fused_dense{}_add", **values: Any) -> Run:
    """Its tasks multiply matrices with so many rows."""
    run = measured_run([(0, 1e-3), (1, 1e-3)], **({"versions": {"apache-tvm": str(tvm())}} | values))
    run.move("running", to="finished")
    for index, number in enumerate(rows):
        args = [{"name": "x", "shape": [number, 784], "dtype": "float32"}]
        run.tasks.filter(index=index).update(name=name.format(index), workload_hash=f"{number}", args=args)
    Task.objects.filter(run=run, index__gte=len(rows)).delete()
    return run


def dense(rows: int, name: str = "fused_dense7_add2") -> TaskInfo:
    args = [TensorInfo("x", [rows, 784], "float32")]
    return msgspec.structs.replace(task_infos(1)[0], name=name, args=args, workload_hash=f"own {rows}")


def similar(task: TaskInfo, run: Run | None = None) -> list[str]:
    return similar_workloads(run or make_run(), [task]).get(task.index, [])


def test_the_nearest_ones_of_the_same_operators_come_first() -> None:
    ended(1024, 32)
    ended(64, 8)
    for rows in range(100, 100 + NEAREST):
        ended(rows)
    assert similar(dense(48))[:3] == ["64", "32", "100"]
    assert len(similar(dense(48))) == NEAREST
    assert similar(dense(48, "fused_conv2d_add")) == []


def test_a_task_whose_workload_is_known_needs_no_other() -> None:
    ended(64, 32)
    assert similar(msgspec.structs.replace(dense(64), workload_hash="64")) == []


@pytest.mark.parametrize(
    "values",
    [{"synthetic": True}, {"versions": {"apache-tvm": "0.1"}}, {"target_fingerprint": "another"}],
    ids=["synthetic", "other TVM", "other target"],
)
def test_only_what_was_measured_alike_counts(values: dict[str, Any]) -> None:
    Run.objects.filter(pk=ended(64).pk).update(**values)
    assert similar(dense(48)) == []


def test_neither_its_own_tasks_nor_those_of_deleted_runs_count() -> None:
    own = ended(64)
    assert similar(dense(48), own) == []
    assert similar(dense(48)) == ["64"]
    own.delete()
    assert similar(dense(48)) == []
