"""Users, runs, tasks and trials for tests, written as the product writes them."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import time, timedelta
from typing import Any

import msgspec
from django.contrib.auth.models import User
from django.utils import timezone

from dashboard.accounts import put_into_role
from dashboard.models import Person
from tuning.engines.wire.protocol import Event, Ranked, Round, TaskInfo, TasksExtracted, TensorInfo, TrialMeasured
from tuning.host.machine import identity
from tuning.logs.meta_schedule import FAILED_RUN_SECS, RECORDS, WORKLOADS
from tuning.models import (
    Benchmark,
    CheckResult,
    Compilation,
    ConditionSample,
    ConditionSession,
    ExtractedTask,
    Extraction,
    LaunchTemplate,
    Machine,
    MachineRoofline,
    Network,
    Project,
    RegressionCheck,
    Run,
    RunDelta,
    SideBySide,
    Task,
    fingerprint,
)
from tuning.noise import noise
from tuning.reads.library import tvm
from tuning.work.recorder import Recorder

TARGET = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}


def make_user(role: str = "operator", name: str | None = None) -> User:
    """A user with the role viewer, operator or admin."""
    user = User.objects.create_user(name or f"a-{role}", password="correct horse")
    put_into_role(user, role)
    Person.saw(user)  # So that the first request needn't write that.
    return user


def first_project() -> int:
    """The key of the project that everything in these tests belongs to, unless they say otherwise."""
    return Project.objects.default().pk


def share_first_project() -> None:
    """Let operators stop and delete each other's runs there."""
    Project.objects.filter(pk=first_project()).update(shared=True)


def make_run(**values: Any) -> Run:
    """A queued run of an MLP with 64 trials, unless the values say otherwise."""
    network, _ = Network.objects.get_or_create(fingerprint="mlp", defaults={"name": "mlp", "options": {"batch": 1}})
    defaults: dict[str, Any] = {
        "project": Project.objects.default(),
        "name": "mlp",
        "network": network,
        "target": TARGET,
        "device": "cpu",
        "options": {"trials_per_batch": 16, "seed": 1},
        "trials_budget": 64,
        "queued_at": timezone.now(),
    }
    return Run.objects.create(**(defaults | values))


def make_machine(name: str = "lab-1", **values: Any) -> Machine:
    """A machine that was just heard of, with the CPU of `TARGET`."""
    defaults: dict[str, Any] = {
        "key": f"key of {name}",
        "cpu": "znver4",
        "cores": 2,
        "memory": 2**33,
        "devices": ["cpu"],
        "target": TARGET,
        "features": ["x86_64", "avx2"],
        "versions": identity.versions(),
    }
    made = Machine.objects.create(name=name, **(defaults | values))
    made.refresh_from_db()  # Times that the database fills in.
    return made


def make_roofline(machine: Machine, **values: Any) -> MachineRoofline:
    """A machine's roofline for `TARGET`: 100 GFLOPS, and 400 GB/s on 64 KiB down to 10 GB/s on 64 MiB."""
    defaults: dict[str, Any] = {
        "target": TARGET,
        "flops": 1e11,
        "bandwidths": [[2**16, 4e11], [2**21, 1e11], [2**26, 1e10]],
        "threads": 2,
        "tvm": "0.27.0.post1",
        "others_cores": 0.0,
        "cpus": 2,
        "took_s": 2.0,
    }
    given = defaults | values
    made = MachineRoofline.objects.create(
        machine=machine, **({"target_fingerprint": fingerprint(given["target"])} | given)
    )
    made.refresh_from_db()
    return made


def measured_by(run: Run, name: str, **which: Any) -> None:
    """A new machine of this name measured these trials of the run, chosen by their columns."""
    machine = make_machine(name)
    run.measured_by.add(machine)
    run.trials.filter(**which).update(machine=machine)


def on(machine: Machine, **values: Any) -> Run:
    """A run that the machine is tuning."""
    run = claimed(make_run(**values))
    Run.objects.filter(pk=run.pk).update(machine=machine)
    run.refresh_from_db()
    return run


def make_network(name: str = "net", **values: Any) -> Network:
    """An uploaded network without its file."""
    defaults: dict[str, Any] = {
        "project": Project.objects.default(),
        "kind": "onnx",
        "fingerprint": name,
        "sha256": "0" * 64,
        "file_name": f"{name}.onnx",
        "size": 1234,
        "inputs": [{"name": "x", "shape": [1, 784], "dtype": "float32"}],
        "parameters": 101770,
        "operators": {"Gemm": 2, "Relu": 1},
        "flop": 5e6,
        "uploaded_at": timezone.now(),
    }
    return Network.objects.create(name=name, **(defaults | values))


def make_template(name: str = "quick look", **values: Any) -> LaunchTemplate:
    """Settings of a launch of an MLP that are kept under this name."""
    settings = {"network": "mlp", "network_options": {}, "engine": "meta_schedule", "target": "this", "trials": 8}
    defaults = {"project": Project.objects.default(), "settings": settings, "saved_at": timezone.now()}
    return LaunchTemplate.objects.create(name=name, **(defaults | values))


def make_extraction(network: Network, count: int = 2, **values: Any) -> Extraction:
    """An extraction of a network, by default finished, with tasks as engines announce them."""
    ended = {"status": Extraction.Status.FINISHED, "finished_at": timezone.now()}
    extraction = Extraction.objects.create(network=network, **({"target": TARGET} | ended | values))
    for info in task_infos(count) if extraction.status == Extraction.Status.FINISHED else []:
        values = msgspec.to_builtins(info)
        fields = {field.name: values[field.name] for field in ExtractedTask._meta.fields if field.name in values}
        ExtractedTask.objects.create(extraction=extraction, **fields)
    return extraction


def tuned_for_cuda(**values: Any) -> Run:
    """A run that has measured trials on a GPU, and has ended."""
    run = measured_run(device="cuda:0", **values)
    run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    run.target = {"kind": "cuda", "arch": "sm_90a"}
    run.save()
    return run


def make_compilation(run: Run | None = None, **values: Any) -> Compilation:
    """A finished compilation, verified and benchmarked once, without its files."""
    if run is None:
        run = measured_run()
        run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    defaults: dict[str, Any] = {
        "status": Compilation.Status.FINISHED,
        "stage": Compilation.Stage.PROVE,
        "queued_at": timezone.now(),
        "finished_at": timezone.now(),
        "versions": {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1"},
        "estimate_s": 7e-3,
        "used": [{"function": "fused_matmul0", "run": run.pk, "trial": 3, "latency_s": 1e-3}],
        "untuned": ["fused_matmul1"],
        "inputs": [{"name": "x", "shape": [1, 784], "dtype": "float32"}],
        "outputs": [{"name": "output", "shape": [1, 10], "dtype": "float32"}],
        "size": 417_000,
        "sha256": "ab" * 32,
        "verified": True,
        "max_abs_error": 3e-7,
        "max_rel_error": 2e-7,
        "tolerance": {"dtype": "float32", "relative": 1e-4},
    }
    compilation = Compilation.objects.create(run=run, **(defaults | values))
    if compilation.verified is not None:
        rounds = {"tuned": [8e-3, 9e-3, 10e-3], "untuned": [80e-3, 90e-3, 100e-3]}
        why = "ONNX Runtime isn't installed."
        Benchmark.objects.create(compilation=compilation, rounds=rounds, without_onnxruntime=why)
    return compilation


def set_beside(runs: Sequence[Run], **values: Any) -> SideBySide:
    """A measurement of these runs side by side that waits for their device."""
    common = {"key": SideBySide.key_of(run.pk for run in runs), "device": "cpu", "queued_at": timezone.now()}
    made = SideBySide.objects.create(**(common | values))
    made.runs.set(runs)
    return made


def measured_beside(runs: Sequence[Run], latencies_s: Mapping[tuple[int, int], Sequence[float]]) -> SideBySide:
    """A finished one: seconds in each round by the position of the run and the number of the task, whose best trial was measured."""
    measured = []
    for (place, index), rounds in latencies_s.items():
        task = runs[place].tasks.get(index=index)
        told = {"workload_hash": task.workload_hash, "run": runs[place].pk, "trial": task.promised[0]}
        measured.append({**told, "latencies_s": list(rounds), "error": None if rounds else "It crashed."})
    return set_beside(runs, status=SideBySide.Status.FINISHED, finished_at=timezone.now(), measured=measured)


def make_check(run: Run | None = None, **values: Any) -> RegressionCheck:
    """A check, due daily at 02:00, of a run that can be compiled with the best records known."""
    if run is None:
        run = measured_run(versions={"apache-tvm": tvm()})
        run.move(Run.Status.RUNNING, to=Run.Status.FINISHED)
    assert run.network is not None
    defaults: dict[str, Any] = {
        "name": f"{run.name} nightly",
        "project": run.project,
        "network": run.network,
        "engine": run.engine,
        "target": run.target,
        "target_fingerprint": run.target_fingerprint,
        "device": run.measures_on,
        "like": run,
        "how": "compile",
        "every": "day",
        "at": time(2, 0),
        "next_at": timezone.now() + timedelta(days=1),
    }
    return RegressionCheck.objects.create(**(defaults | values))


def make_result(check: RegressionCheck, latency_s: float | None = 10e-3, **values: Any) -> CheckResult:
    """A result that has ended, of seven rounds, and is the check's latest."""
    rounds = [latency_s * each for each in (0.98, 0.99, 1.0, 1.0, 1.0, 1.01, 1.02)] if latency_s else []
    now = timezone.now()
    defaults: dict[str, Any] = {"begun_at": now, "ended_at": now, "stage": "measure", "verdict": "first"}
    defaults |= {"rounds": rounds, "latency_s": latency_s, "spread": noise(rounds)}
    made = CheckResult.objects.create(of=check, **(defaults | values))
    if made.verdict not in ("", "skipped"):
        RegressionCheck.objects.filter(pk=check.pk).update(latest=made)
        check.latest = made
    return made


def publish(compilation: Compilation) -> None:
    """Write its files, with fake content."""
    compilation.artifact.mkdir(parents=True)
    for path in (compilation.library, compilation.untuned_library):
        path.write_bytes(b"\x7fELF, almost")
    compilation.manifest.write_text('{"format": 1}')
    compilation.console_log.write_text("Linked.\n")


def claimed(run: Run) -> Run:
    """The run, claimed and running."""
    assert run.claim()
    return run


def task_infos(count: int = 2) -> list[TaskInfo]:
    """Tasks as an engine announces them: task i has weight i + 1 and (i + 1) MFLOP."""
    return [
        TaskInfo(
            index=index,
            name=f"fused_matmul{index}",
            weight=index + 1,
            flop=1e6 * (index + 1),
            workload_hash=f"{index:016x}",
            args=[TensorInfo("x", [1, 784], "float32"), TensorInfo("y", [1, 128], "float32")],
            tensorir="@T.prim_func\ndef main():\n    pass",
        )
        for index in range(count)
    ]


def extracted(count: int = 2) -> TasksExtracted:
    """The event that announces the tasks."""
    return TasksExtracted(target=TARGET, tasks=task_infos(count))


def trial(task: int = 0, latency_s: float | None = 1e-3, **values: Any) -> TrialMeasured:
    """The event of a trial, which failed if it has no latency."""
    defaults: dict[str, Any] = {"at_s": 1.0}
    if latency_s is None:
        defaults |= {"error_kind": "run", "error": "CUDA error: too many resources"}
    else:
        defaults |= {"record": record_text(task, latency_s)}
    return TrialMeasured(task=task, latency_s=latency_s, **(defaults | values))


def record_text(task: int, latency_s: float | None) -> str:
    """A record in MetaSchedule's format, with a fake workload and trace."""
    return f"[{workload_text(task)},{record_line(latency_s)}]"


def workload_text(task: int) -> str:
    """A line of a workload file with a module that is nothing but a name."""
    text = f'{{"nodes":[{{"type":"ffi.String","data":"module_of_task_{task}"}}],"root_index":0}}'.encode()
    return f'["{task}","{base64.b64encode(struct.pack("<Q", len(text)) + text).decode()}"]'


def record_line(latency_s: float | None) -> str:
    run_secs = FAILED_RUN_SECS if latency_s is None else latency_s
    return f'[[[["GetSBlock",[],["matmul","main"],["b0"]]],[]],[{run_secs}],{{"kind":"llvm"}},[]]'


def write_record_files(run: Run) -> None:
    """Write the two files that the engine would have written for the run's trials."""
    run.work_dir.mkdir(parents=True, exist_ok=True)
    tasks = run.tasks.values_list("index", flat=True)
    (run.work_dir / WORKLOADS).write_text("".join(f"{workload_text(task)}\n" for task in tasks))
    trials = run.trials.order_by("number").values_list("task__index", "latency_s")
    lines = (f"[{task},{record_line(latency_s)}]\n" for task, latency_s in trials.iterator())
    (run.work_dir / RECORDS).write_text("".join(lines))


def make_tasks(run: Run, count: int = 2) -> list[Task]:
    """Record tasks of a claimed run."""
    Recorder(run).record([extracted(count)])
    run.refresh_from_db()
    return list(run.tasks.all())


def record_trials(run: Run, latencies: Sequence[tuple[int, float | None]]) -> RunDelta:
    """Record trials of a claimed run with tasks, one per second: (task index, latency in seconds or None)."""
    events: Iterable[Event] = [
        trial(task, latency_s, at_s=run.trials_done + position + 1.0)
        for position, (task, latency_s) in enumerate(latencies)
    ]
    delta = Recorder(run).record(list(events))
    run.refresh_from_db()
    return delta


def make_course(run: Run) -> None:
    """Rounds of the first two tasks of a claimed run, the cost model's rankings, and what its machine was like."""
    told = {
        "search_s": 1.0,
        "learn_s": 0.25,
        "build_s": 0.5,
        "measure_s": 0.875,
        "again_s": 0.125,
        "wait_s": 0.125,
        "beside_measure_s": 2.0,
    }
    rounds: list[Event] = [
        Round(None, 0, 0, 0.0, 1.0),
        *(Round(at % 2, at, 1, 1.0 + 3 * at, 4.0 + 3 * at, **told) for at in range(4)),
    ]
    scores, latencies = [0.9, 0.6, 0.4, 0.1], [1e-3, 3e-3, 2e-3, 4e-3]
    ranked = [Ranked(at % 2, at, 3.0 * at, 0.8, scores, latencies) for at in range(1, 5)]
    Recorder(run).record([*rounds, *ranked])
    processor = {"model": "A CPU", "cpus": 8, "governor": "powersave", "turbo": True, "smt": None, "kernel": "6.1.0"}
    ConditionSession.objects.create(run=run, at_s=0.0, machine="lab-1", processor=processor)
    load = {"cpus": 8, "mhz": 3000, "least_mhz": 2400, "celsius": 61.5}
    for at in range(4):
        ConditionSample.objects.create(run=run, at_s=3.0 * at, done=at, others_cores=at / 2, **load)


def measured_run(
    latencies: Sequence[tuple[int, float | None]] = ((0, 2e-3), (1, 3e-3), (0, 1e-3)), **values: Any
) -> Run:
    """A running run with two tasks and some trials."""
    run = claimed(make_run(**values))
    make_tasks(run)
    record_trials(run, latencies)
    return run
