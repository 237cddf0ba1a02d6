"""A script as users have them, in any TVM with MetaSchedule: two small tasks are tuned, with the callback.

`python meta_schedule.py FOLDER-OF-TUNEBOARD.PY URL FOLDER`, with the token in TUNEBOARD_TOKEN. Its builder and runner make up what they
return, since TVM's own start TVM in a process for each batch. Every fourth candidate can't be built. It prints TVM's version, how many
records are in the database, how long the callback took, and how long the tuning.
"""

# mypy: ignore-errors
import json
import os
import sys
import time

try:
    import xgboost  # noqa: F401  before tvm
except ImportError:
    pass
import tvm
from tvm import te

try:
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms
except ImportError:
    from tvm import meta_schedule as ms
    from tvm.meta_schedule.utils import derived_object

sys.path.insert(0, sys.argv[1])
import tuneboard

URL, FOLDER, TOKEN = sys.argv[2], sys.argv[3], os.environ["TUNEBOARD_TOKEN"]
TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})
SIZES = {"small": 16, "large": 32}
WEIGHTS = {"small": 3, "large": 1}
BATCH = 4
spent = 0.0


@derived_object
class Builder(ms.builder.PyBuilder):
    def build(self, build_inputs):
        return [self.built(index % 4 == 3) for index in range(len(build_inputs))]

    def built(self, fails):
        if fails:
            return ms.builder.BuilderResult(None, "no such instruction")
        return ms.builder.BuilderResult(os.path.join(FOLDER, "built", "f.so"), None)


@derived_object
class Runner(ms.runner.PyRunner):
    def run(self, runner_inputs):
        return [ms.runner.local_runner.LocalRunnerFuture([2e-3, 4e-3], None) for _ in runner_inputs]


def matmul(n):
    a = te.placeholder((n, n), name="a")
    b = te.placeholder((n, n), name="b")
    r = te.reduce_axis((0, n), name="r")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


def timed(function):
    def call(*args):
        global spent
        begun = time.perf_counter()
        try:
            return function(*args)
        finally:
            spent += time.perf_counter() - begun

    return call


def callbacks(tasks=None):
    """Without TVM's RemoveBuildArtifact: it removes the folder of what a builder says that it built, whatever that folder is."""
    sender = tuneboard.MetaSchedule.__call__
    tuneboard.MetaSchedule.__call__ = timed(sender)
    mine = tuneboard.meta_schedule_callback(URL, TOKEN, network="matmuls", tasks=tasks, stream="meta_schedule")
    return [ms.measure_callback.AddToDatabase(), mine]


def tune_0_9(trials):
    """TVM 0.9 takes what was extracted."""
    tasks = [
        ms.ExtractedTask(name, matmul(size), TARGET, [matmul(size)], WEIGHTS[name]) for name, size in SIZES.items()
    ]
    return ms.tune_extracted_tasks(
        tasks,
        ms.TuneConfig(trials, BATCH, trials, task_scheduler="round_robin", strategy="replay_trace"),
        FOLDER,
        builder=Builder(),
        runner=Runner(),
        cost_model=ms.cost_model.RandomModel(),
        measure_callbacks=callbacks(tasks),
    )


def tune(trials):
    contexts = [
        ms.TuneContext(
            matmul(size),
            target=TARGET,
            space_generator="post-order-apply",
            search_strategy="replay-trace",
            task_name=name,
            num_threads=1,
        )
        for name, size in SIZES.items()
    ]
    return ms.tune_tasks(
        tasks=contexts,
        task_weights=[WEIGHTS[name] for name in SIZES],
        work_dir=FOLDER,
        max_trials_global=trials,
        num_trials_per_iter=BATCH,
        builder=Builder(),
        runner=Runner(),
        cost_model="random",
        task_scheduler="round-robin",
        measure_callbacks=callbacks(),
    )


begun = time.perf_counter()
database = (tune if hasattr(ms, "tune_tasks") else tune_0_9)(8)
records = len(database.get_all_tuning_records())
found = {"tvm": tvm.__version__, "records": records, "spent_s": spent, "tuned_s": time.perf_counter() - begun}
print(json.dumps(found), flush=True)
