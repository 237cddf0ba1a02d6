"""Compiles and proves with TVM, as the supervisor does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Union

from tests.tuning.engines.running import Engine
from tuning.engines.wire.compiling import BestRecord, Build, Built, Phase, Prove, Proven
from tuning.engines.wire.protocol import NetworkSpec, TasksExtracted
from tuning.host import sandbox

LIMITS: dict[str, Any] = {"memory_mb": 8192, "cpu_s": 600}
HERE = sandbox.Limits(600, "TUNEBOARD_COMPILE")


def best(engine: Engine, run: int = 7) -> list[BestRecord]:
    """The best record of each task of a run that has ended."""
    found: dict[int, BestRecord] = {}
    for number, trial in enumerate(engine.trials, 1):
        latency_s = trial.latency_s
        if latency_s and trial.record and (trial.task not in found or latency_s < found[trial.task].latency_s):
            found[trial.task] = BestRecord(run, number, latency_s, trial.record)
    return list(found.values())


def more(engine: Engine, records: Iterable[BestRecord], run: int = 7) -> list[list[BestRecord]]:
    """For each of these records of that run, the others of its task."""
    tried = [
        (trial.task, BestRecord(run, number, trial.latency_s, trial.record))
        for number, trial in enumerate(engine.trials, 1)
        if trial.latency_s and trial.record
    ]
    task_of = {record.trial: task for task, record in tried}
    return [
        [other for task, other in tried if task == task_of[record.trial] and other.trial != record.trial]
        for record in records
    ]


def target_of(engine: Engine) -> dict[str, Any]:
    (extracted,) = [event for event in engine.seen if isinstance(event, TasksExtracted)]
    return extracted.target


def build(
    network: NetworkSpec, target: dict[str, Any], records: Iterable[BestRecord], folder: Path, **options: Any
) -> Built:
    """Raises `Refused`."""
    folder.mkdir()
    given = {"remote": False, "about": {"run_name": "a run"}, **options, **LIMITS}
    question = Build(network=network, target=target, records=list(records), folder=str(folder), **given)
    built = asked("tuning.engines.oneshot.compiling", question, Built)
    assert isinstance(built, Built)
    return built


def prove(network: NetworkSpec, target: dict[str, Any], folder: Path, **more: Any) -> Proven:
    """Raises `Refused`."""
    question = Prove(
        network=network, target=target, folder=str(folder), seed=1, benchmark_s=0.3, quietly=False, **more, **LIMITS
    )
    proven = asked("tuning.engines.oneshot.proving", question, Proven)
    assert isinstance(proven, Proven)
    return proven


def asked(module: str, question: Any, kind: Any) -> Any:
    kinds: Any = Union[Phase, kind]
    *_phases, answer = sandbox.ask(module, question, kinds, limits=HERE)
    return answer
