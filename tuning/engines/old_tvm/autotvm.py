"""The AutoTVM engine: `PYTHON -m tuning.engines.old_tvm.autotvm --events-fd FD`. Tunes one task after the other with TVM's own tuners."""

import json
import logging
from typing import Any, Dict, List, Tuple

from .engine import Engine, Extracted, Run, main, shortened, workload_hash
from .loading import xgboost_problem
from .networks import Built
from .pipes import Message
from .refusing import Refused
from .shares import trials_per_task
from .vta import builds
from .vta.packing import packed_tasks

logger = logging.getLogger("tuneboard")


def extract(start: Message, built: Built, target: Any) -> List[Extracted]:
    """The network's tasks for which this TVM has a template; for VTA, its packed convolutions."""
    from .weights import weights

    tasks_of = packed_tasks if builds.is_target(start["target"]) else _tasks
    mod, tasks = tasks_of(start, built, target)
    counts = weights(mod, tasks, start["options"]["tasks"])
    return [_extracted(task, weight) for task, weight in zip(tasks, counts)]


def _tasks(start: Message, built: Built, target: Any) -> Tuple[Any, List[Any]]:
    """The network, and AutoTVM's tasks."""
    from tvm import autotvm, relay

    mod, params = built
    names = start["options"]["ops"]
    ops = None if names is None else tuple(relay.op.get("nn." + name) for name in names)
    return mod, autotvm.task.extract_from_program(mod["main"], params=params, target=target, ops=ops)


def _extracted(task: Any, weight: Any) -> Extracted:
    workload = _plain([task.name, task.args, task.kwargs])
    info = {
        "name": shortened(str(task.name)),
        "weight": weight,
        "flop": float(task.flop),
        "workload_hash": workload_hash("autotvm", workload),
        "args": [_argument(number, arg) for number, arg in enumerate(_tensors(task.args))],
        "tensorir": None,
        "space": len(task.config_space),
    }
    return Extracted(task, json.dumps(workload), info)


def _plain(value: Any) -> Any:
    """As it stands in a record, where tuples are lists."""
    return json.loads(json.dumps(value))


def _tensors(args: Any) -> List[Any]:
    return [arg for arg in args if isinstance(arg, tuple) and arg and arg[0] == "TENSOR"]


def _argument(number: int, arg: Any) -> Dict[str, Any]:
    _, shape, dtype = arg
    return {"name": f"arg{number}", "shape": [int(extent) for extent in shape], "dtype": str(dtype)}


def read_workload(record: Dict[str, Any]) -> str:
    """Name and arguments of a record's task."""
    _, *workload = record["input"]
    return json.dumps(workload)


def read_record(text: str) -> Any:
    """TVM's `MeasureInput` and `MeasureResult` of a line. Raises `ValueError`, or what TVM raises."""
    from tvm import autotvm

    decoded = autotvm.record.decode(text)
    if decoded is None:
        raise ValueError("its format is of another version")
    return decoded


def tune(run: Run) -> str:
    """Tune task by task. What tasks leave of the budget, or what it grows by meanwhile, is shared again."""
    from .tuning import TaskTuning

    _check_xgboost(run.start["options"])
    tuning = TaskTuning(run)
    run.trials.before_end.append(tuning.log_shares)
    while True:
        still = [task for task in run.chosen if tuning.limit(task) > run.trials.tasks[task].trials]
        if not still:
            return "plateau" if tuning.on_plateau else "exhausted"
        done = {task: run.trials.tasks[task].trials for task in still}
        goals = trials_per_task(done, {task: tuning.limit(task) for task in still}, run.trials.left)
        for task in still:
            tuning.tune(task, goals[task])


def _check_xgboost(options: Message) -> None:
    import tvm

    problem = xgboost_problem(tvm.__version__) if options["tuner"].startswith("xgb") else None
    if problem:
        raise Refused(problem + ". The tuners ga, random and gridsearch don't need it.", "tuner")


if __name__ == "__main__":
    main(Engine("autotvm", extract, read_workload, read_record, tune))
