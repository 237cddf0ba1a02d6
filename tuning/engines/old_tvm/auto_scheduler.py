"""The auto_scheduler engine: `PYTHON -m tuning.engines.old_tvm.auto_scheduler --events-fd FD`.

TVM's own task scheduler, search policy, builder and runner do the work. Its budget, which can't grow, is set out of reach: the process
ends with the trial that uses up the run's.
"""

import json
import logging
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

from .candidates import Candidates, read_record
from .engine import Engine, Extracted, Run, main, shortened, workload_hash
from .loading import xgboost_problem
from .networks import Built
from .pipes import Message
from .refusing import Refused

logger = logging.getLogger("tuneboard")
NO_LIMIT = 1 << 30
LAYOUT_REWRITES = ("no_rewrite", "insert_transform_stage", "rewrite_for_pre_transformed")
"""By number of TVM's `LayoutRewriteOption`."""
HARDWARE = (
    "num_cores",
    "vector_unit_bytes",
    "cache_line_bytes",
    "max_shared_memory_per_block",
    "max_local_memory_per_block",
    "max_threads_per_block",
    "max_vthread_extent",
    "warp_size",
)
SEARCH = (
    "evolutionary_search_population",
    "evolutionary_search_num_iters",
    "sample_init_min_population",
    "eps_greedy",
)


def extract(start: Message, built: Built, target: Any) -> List[Extracted]:
    """The network's tasks."""
    from tvm import auto_scheduler

    mod, params = built
    hardware = {name: start["options"][name] for name in HARDWARE if start["options"][name] is not None}
    hardware_params = auto_scheduler.HardwareParams(target=target, **hardware) if hardware else None
    tasks, weights = auto_scheduler.extract_tasks(mod["main"], params, target, hardware_params=hardware_params)
    rewrite = start["options"]["layout_rewrite_option"]
    return [_extracted(_rewriting(task, rewrite), int(weight)) for task, weight in zip(tasks, weights)]


def _rewriting(task: Any, rewrite: str) -> Any:
    if rewrite == "auto":
        return task
    return type(task)(
        workload_key=task.workload_key,
        target=task.target,
        hardware_params=task.hardware_params,
        layout_rewrite_option=LAYOUT_REWRITES.index(rewrite),
        desc=task.desc,
    )


def _extracted(task: Any, weight: int) -> Extracted:
    dag = task.compute_dag
    flop = float(dag.flop_ct)
    info = {
        "name": shortened(str(task.desc)),
        "weight": weight,
        "flop": flop if flop >= 0 else None,  # TVM says -1 where it can't count.
        "workload_hash": workload_hash("auto_scheduler", json.loads(task.workload_key)),
        "args": [_argument(tensor) for tensor in dag.tensors],
        "tensorir": None,
    }
    return Extracted(task, str(task.workload_key), info)


def _argument(tensor: Any) -> Dict[str, Any]:
    return {"name": str(tensor.op.name), "shape": [int(extent) for extent in tensor.shape], "dtype": str(tensor.dtype)}


def read_workload(record: Dict[str, Any]) -> str:
    """The workload key of a record."""
    return str(record["i"][0][0])


def tune(run: Run) -> str:
    """Tune the chosen tasks with TVM's task scheduler."""
    from tvm import auto_scheduler

    options = run.start["options"]
    _check_xgboost(options)
    tasks = [run.tasks[index].native for index in run.chosen]
    candidates = Candidates(run, {run.tasks[index].workload: index for index in run.chosen})
    candidates.measure_known()
    tuning = candidates.tuning_options(NO_LIMIT, _round(run))
    own = str(run.records.path) if run.trials.done else None
    scheduler = auto_scheduler.TaskScheduler(
        tasks,
        task_weights=[run.tasks[index].info["weight"] for index in run.chosen],
        strategy=options["task_scheduler"],
        load_log_file=own,
        callbacks=[_searching(run)],
    )
    policies = auto_scheduler.task_scheduler.make_search_policies(
        "sketch." + options["cost_model"],
        {name: options[name] for name in SEARCH},
        tasks,
        tuning.num_measures_per_round,
        0,
        load_log_file=_history(run) or own,
    )
    scheduler.tune(tuning, search_policy=policies)
    return "exhausted" if len(scheduler.dead_tasks) == len(tasks) else "plateau"


def _check_xgboost(options: Message) -> None:
    import tvm

    problem = xgboost_problem(tvm.__version__) if options["cost_model"] == "xgb" else None
    if problem:
        raise Refused(problem + ". The search policy sketch.random doesn't need it.", "cost_model")


def _round(run: Run) -> int:
    """Trials per round: with more, the budget would be used up before each task had some."""
    per_task = max(1, run.trials.left // len(run.chosen))
    return min(int(run.start["options"]["trials_per_batch"]), per_task)


def _searching(run: Run) -> Any:
    from tvm.auto_scheduler.task_scheduler import TaskSchedulerCallback

    class Searching(TaskSchedulerCallback):  # type: ignore[misc]
        def pre_tune(self, task_scheduler: Any, task_id: int) -> None:  # noqa: ARG002
            run.trials.report_phase("searching", run.chosen[task_id])

    return Searching()


def _history(run: Run) -> Optional[str]:
    """A log of the records that earlier runs measured and then this run's, to learn from; None without earlier runs."""
    measured = [record["text"] + "\n" for record in run.known if record["is_measured"]]
    if not measured:
        return None
    log = Path(tempfile.mkdtemp(), "history.json")
    log.write_text("".join(measured) + run.records.path.read_text())
    return str(log)


if __name__ == "__main__":
    main(Engine("auto_scheduler", extract, read_workload, read_record, tune))
