"""auto_scheduler's candidates: TVM builds and measures each, and it is reported as soon as it ends."""

import traceback
from typing import Any, Dict, List

from .engine import Run
from .pipes import Message
from .trials import Outcome


def read_record(text: str) -> Any:
    """TVM's `MeasureInput` and `MeasureResult` of a line. Raises `TVMError`."""
    from tvm.auto_scheduler.measure_record import load_record_from_string

    return load_record_from_string(text)


class Candidates:
    """Stands in for the functions that TVM's builder and runner call with a batch. `index_of` has tasks by workload key."""

    def __init__(self, run: Run, index_of: Dict[str, int]) -> None:
        import tvm
        from tvm.auto_scheduler import measure

        self._run = run
        self._index_of = index_of
        self._measure = measure
        _keep_warm(measure)
        remote = run.start["remote"]
        self._stock_build = measure.local_builder_build
        self._stock_run = measure.rpc_runner_run if remote else measure.local_run
        where = "auto_scheduler.rpc_runner.run" if remote else "auto_scheduler.local_runner.run"
        tvm._ffi.register_func("auto_scheduler.local_builder.build", self._build, override=True)  # noqa: SLF001
        tvm._ffi.register_func(where, self._run_batch, override=True)  # noqa: SLF001
        self._builder, self._runner = _builder(measure, run.start["options"]), _runner(measure, run.start)

    def tuning_options(self, trials: int, per_round: int) -> Any:
        """TVM's."""
        from tvm import auto_scheduler

        return auto_scheduler.TuningOptions(
            num_measure_trials=trials,
            num_measures_per_round=per_round,
            early_stopping=self._run.start["options"]["early_stopping"],
            builder=self._builder,
            runner=self._runner,
            measure_callbacks=[],
            verbose=0,
        )

    def measure_known(self) -> None:
        """Measure the best candidate that earlier runs have for each task without trials, so that its latency is the run's own."""
        seen = set()
        for one in self._run.known:
            task = one["task"]
            if task not in seen and not self._run.trials.tasks[task].trials:
                seen.add(task)
                self._measure_again(one)

    def _measure_again(self, known: Message) -> None:
        given, _ = read_record(known["text"])
        recovered = self._measure.recover_measure_input(given, rebuild_state=True)
        candidate = self._measure.MeasureInput(self._run.tasks[known["task"]].native, recovered.state)
        self._runner.run([candidate], self._builder.build([candidate], 0), 0)

    def _task_of(self, candidate: Any) -> int:
        return self._index_of[str(candidate.task.workload_key)]

    def _build(self, inputs: Any, *rest: Any) -> Any:
        self._run.trials.report_phase("building", self._task_of(inputs[0]))
        return self._stock_build(inputs, *rest)

    def _run_batch(self, inputs: Any, builds: Any, *rest: Any) -> List[Any]:
        self._run.trials.report_phase("measuring", self._task_of(inputs[0]))
        return [self._run_one(candidate, built, rest) for candidate, built in zip(inputs, builds)]

    def _run_one(self, candidate: Any, built: Any, rest: Any) -> Any:
        from tvm.auto_scheduler.measure_record import dump_record_to_string

        with self._run.trials.measurement():
            (result,) = self._stock_run([candidate], [built], *rest)
            record = dump_record_to_string(candidate, result).strip()
            self._run.trials.end_trial(self._task_of(candidate), _outcome(result), record)
        return result


def _builder(measure: Any, options: Message) -> Any:
    workers = {"n_parallel": options["build_workers"]} if options["build_workers"] else {}
    return measure.LocalBuilder(timeout=options["build_timeout_s"], **workers)


def _runner(measure: Any, start: Message) -> Any:
    options, remote = start["options"], start["remote"]
    how = {name: options[name] for name in ("number", "repeat", "min_repeat_ms")}
    if not remote:
        return measure.LocalRunner(timeout=options["run_timeout_s"], **how)
    tracker = remote["tracker"]
    return measure.RPCRunner(remote["key"], tracker["host"], tracker["port"], timeout=options["run_timeout_s"], **how)


def _outcome(result: Any) -> Outcome:
    number = int(result.error_no)
    if number:
        return Outcome(None, number, str(result.error_msg) if result.error_msg else None)
    costs = [float(cost.value) for cost in result.costs]
    return Outcome(sum(costs) / len(costs))


def _keep_warm(measure: Any) -> None:
    """Let all batches share one runner's process and one pool, which otherwise start with TVM for each."""
    worker = measure.PopenWorker()
    stock: Any = measure.PopenPoolExecutor
    pools: Dict[Any, Any] = {}

    def pool(n_parallel: int, *options: Any) -> Any:
        key = (n_parallel, *options[:1])  # The second is the timeout.
        if key not in pools:
            pools[key] = stock(n_parallel, *options)
        return pools[key]

    measure.PopenWorker = lambda *_, **__: worker
    measure.PopenPoolExecutor = pool
    measure.call_func_with_timeout = _call


def _call(worker: Any, timeout: int, func: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The function's result, or the error. TVM's own function makes a runtime error of a timeout."""
    worker.send(func, args, kwargs, timeout)
    try:
        return worker.recv()
    except TimeoutError as error:
        return error
    except Exception:  # noqa: BLE001  it is the trial's
        return RuntimeError(traceback.format_exc())
