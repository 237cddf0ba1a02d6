"""A script as users have them, under an old TVM: AutoTVM and auto_scheduler tune a small layer each, with the callback.

`python old_tvm.py FOLDER-OF-TUNEBOARD.PY URL FOLDER`, with the token in TUNEBOARD_TOKEN. It prints how many trials each measured, how long
the callbacks took, and how long the tuning. It waits between the tuners for the file `go` in the folder.
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
import numpy as np  # noqa: F401
import tvm
from tvm import auto_scheduler, autotvm, te

sys.path.insert(0, sys.argv[1])
import tuneboard

URL, FOLDER, TOKEN = sys.argv[2], sys.argv[3], os.environ["TUNEBOARD_TOKEN"]
spent = 0.0


def timed(function):
    def call(*args):
        global spent
        begun = time.perf_counter()
        try:
            return function(*args)
        finally:
            spent += time.perf_counter() - begun

    return call


@autotvm.template("tuneboard/matmul")
def matmul(n, m, k, dtype):
    a = te.placeholder((n, k), name="a", dtype=dtype)
    b = te.placeholder((k, m), name="b", dtype=dtype)
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    s = te.create_schedule(c.op)
    config = autotvm.get_config()
    y, x = s[c].op.axis
    config.define_split("tile_y", y, num_outputs=2)
    config.define_split("tile_x", x, num_outputs=2)
    yo, yi = config["tile_y"].apply(s, c, y)
    xo, xi = config["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
    return s, [a, b, c]


@auto_scheduler.register_workload
def matmul_add(n, m, k, dtype):
    a = te.placeholder((n, k), name="a", dtype=dtype)
    b = te.placeholder((k, m), name="b", dtype=dtype)
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    return [a, b, c]


def tune_autotvm(trials):
    task = autotvm.task.create("tuneboard/matmul", args=(64, 64, 64, "float32"), target="llvm")
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(n_parallel=2, do_fork=True),
        runner=autotvm.LocalRunner(number=2, repeat=1, timeout=20),
    )
    callback = tuneboard.callback(URL, TOKEN, network="matmul", tasks=[task], task_weights=[1], stream="autotvm")
    log = os.path.join(FOLDER, "autotvm.json")
    callbacks = [autotvm.callback.log_to_file(log), timed(callback)]
    autotvm.tuner.RandomTuner(task).tune(n_trial=trials, measure_option=option, callbacks=callbacks)
    return log


def tune_auto_scheduler(trials):
    task = auto_scheduler.SearchTask(func=matmul_add, args=(64, 64, 64, "float32"), target="llvm")
    log = os.path.join(FOLDER, "auto_scheduler.json")
    callback = tuneboard.auto_scheduler_callback(
        URL, TOKEN, network="matmul", tasks=[task], task_weights=[1], stream="auto_scheduler"
    )
    callback.callback = timed(callback.callback)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=4,
        measure_callbacks=[auto_scheduler.RecordToFile(log), callback],
        verbose=0,
    )
    params = {
        "evolutionary_search_population": 32,
        "evolutionary_search_num_iters": 1,
        "sample_init_min_population": 8,
    }
    policy = auto_scheduler.SketchPolicy(
        task, program_cost_model=auto_scheduler.RandomModel(), params=params, verbose=0
    )
    task.tune(options, search_policy=policy)
    return log


def told(text):
    print(text, flush=True)


begun = time.perf_counter()
told("begun")
first = tune_autotvm(8)
told("half")
while not os.path.exists(os.path.join(FOLDER, "go")):
    time.sleep(0.1)
waited = time.perf_counter()
second = tune_auto_scheduler(8)
told(
    json.dumps(
        {
            "tvm": tvm.__version__,
            "trials": [sum(1 for _ in open(log)) for log in (first, second)],
            "spent_s": spent,
            "tuned_s": time.perf_counter() - begun,
        }
    )
)
