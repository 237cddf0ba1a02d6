"""AutoTVM's candidates: TVM builds them, a process of their own measures them, and each is reported as soon as it ends."""

import contextlib
import time
import traceback
from typing import Any, Dict, Iterator, List, Tuple

import tvm
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureResult
from tvm.autotvm.measure.measure_methods import run_through_rpc, set_cuda_target_arch
from tvm.contrib.popen_pool import PopenWorker

from .engine import Run
from .trials import Outcome


class _OneByOne:
    """Measures a batch one by one. `index` is that of the task that is tuned."""

    tuning: Run
    index = 0

    def run(self, measure_inputs: List[Any], build_results: List[Any]) -> List[Any]:
        """A result for each."""
        self.tuning.trials.report_phase("measuring", self.index)
        return [self._run_one(candidate, built) for candidate, built in zip(measure_inputs, build_results)]

    def _run_one(self, candidate: Any, built: Any) -> Any:
        with self.tuning.trials.measurement():
            result = built if isinstance(built, MeasureResult) else self.measured(candidate, built)
            self.tuning.trials.end_trial(self.index, _outcome(result), autotvm.record.encode(candidate, result))
        return result

    def measured(self, candidate: Any, built: Any) -> Any:
        """The result of a candidate that was built."""
        raise NotImplementedError


class Remotely(_OneByOne, autotvm.RPCRunner):  # type: ignore[misc]
    """Measures on the devices of a tracker, as TVM does."""

    def measured(self, candidate: Any, built: Any) -> Any:
        """The result of TVM's own runner."""
        return autotvm.RPCRunner.run(self, [candidate], [built])[0]


class Here(_OneByOne, autotvm.measure.measure.Runner):  # type: ignore[misc]
    """Measures on this machine, in a process that lives on between measurements."""

    def __init__(self, timeout: int, **how: int) -> None:
        super().__init__(timeout=timeout, n_parallel=1)
        self.how = how
        self._worker = PopenWorker()

    def get_build_kwargs(self) -> Dict[str, Any]:
        """Limits of the device, which candidates for a GPU must keep."""
        target = self.tuning.target
        if "gpu" not in target.keys:
            return {}
        device = tvm.device(str(target.kind), 0)
        x, y, z = device.max_thread_dimensions
        if str(target.kind) == "cuda":
            set_cuda_target_arch("sm_" + "".join(device.compute_version.split(".")))
        return {
            "check_gpu": {
                "max_shared_memory_per_block": device.max_shared_memory_per_block,
                "max_threads_per_block": device.max_threads_per_block,
                "max_thread_x": x,
                "max_thread_y": y,
                "max_thread_z": z,
            }
        }

    def measured(self, candidate: Any, built: Any) -> Any:
        """The result, also if the process crashed or took too long."""
        return self.asked(measure, (candidate, built, self.how), self.timeout)

    def asked(self, function: Any, arguments: Tuple[Any, ...], timeout_s: float) -> Any:
        """What the function of a module returns there, or a failed result."""
        began = time.time()
        try:
            self._worker.send(function, arguments, timeout=timeout_s)
            return self._worker.recv()
        except TimeoutError as error:
            return failed(error, MeasureErrorNo.RUN_TIMEOUT, began)
        except ChildProcessError:
            crashed = RuntimeError("The process that measured it crashed.")
            return failed(crashed, MeasureErrorNo.RUNTIME_DEVICE, began)
        except Exception as error:  # noqa: BLE001  whatever it is, it's the trial's
            return failed(error, MeasureErrorNo.RUNTIME_DEVICE, began)


def how_of(options: Dict[str, Any]) -> Dict[str, int]:
    """How TVM's time evaluator repeats a measurement."""
    return {name: options[name] for name in ("number", "repeat", "min_repeat_ms")}


def runner_of(run: Run) -> Any:
    """A runner for this machine or for the run's tracker."""
    options, remote = run.start["options"], run.start["remote"]
    how = how_of(options)
    if remote:
        tracker = remote["tracker"]
        runner = Remotely(remote["key"], tracker["host"], tracker["port"], timeout=options["run_timeout_s"], **how)
    else:
        runner = Here(options["run_timeout_s"], **how)
    runner.tuning = run
    return runner


def failed(error: Exception, number: Any, began: float) -> Any:
    """The result of a measurement that failed."""
    told = "".join(traceback.format_exception_only(type(error), error))
    return MeasureResult((told, error), number, time.time() - began, time.time())


def _outcome(result: Any) -> Outcome:
    if result.error_no == MeasureErrorNo.NO_ERROR:
        return Outcome(float(sum(result.costs)) / len(result.costs))
    told = result.costs[0]  # An error, or from TVM 0.9 on a traceback and then the error.
    timed_out = result.error_no in (MeasureErrorNo.BUILD_TIMEOUT, MeasureErrorNo.RUN_TIMEOUT)
    return Outcome(None, int(result.error_no), None if timed_out else str(told))


def measure_option(run: Run, runner: Any) -> Any:
    """TVM's builder, and this runner."""
    options = run.start["options"]

    class Builder(autotvm.LocalBuilder):  # type: ignore[misc]
        def build(self, measure_inputs: List[Any]) -> List[Any]:
            run.trials.report_phase("building", runner.index)
            built: List[Any] = super().build(measure_inputs)
            return built

    # do_fork is how it is told that it may use several processes.
    builder = Builder(timeout=options["build_timeout_s"], n_parallel=options["build_workers"], do_fork=True)
    return autotvm.measure_option(builder=builder, runner=runner)


def measure(candidate: Any, built: Any, how: Dict[str, int]) -> Any:
    """Measure in this process what was built, as TVM does on a remote device."""
    return run_through_rpc(
        candidate, built, cooldown_interval=0, remote_kwargs=None, ref_input=None, module_loader=_here, **how
    )


@contextlib.contextmanager
def _here(_: None, built: Any) -> Iterator[Tuple[Any, Any]]:
    """This process in place of a session with a device, and the candidate's module."""
    yield _Here(), tvm.runtime.load_module(built.filename)


class _Here:
    def device(self, target: str, number: int) -> Any:
        return tvm.device(target.split(maxsplit=1)[0], number)

    def get_function(self, name: str) -> Any:
        return tvm.get_global_func(name)
