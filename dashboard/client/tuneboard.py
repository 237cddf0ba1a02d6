"""Shows on Tuneboard what your own script tunes. Put this one file beside the script; it needs Python 3.6 and nothing else.

    tuner.tune(n_trial=…, measure_option=…, callbacks=[tuneboard.callback(URL, TOKEN, network="resnet-18")])

`auto_scheduler_callback` and `meta_schedule_callback` do the same for the other two tuners. What is measured goes into a file
first, and a thread sends it from there. While the site is away the tuning goes on as if nothing were wrong, and what couldn't
be sent is sent later: by this process, by the next one that uses Tuneboard, or by `python tuneboard.py URL`, which reads the
token from TUNEBOARD_TOKEN. No trial is counted twice, however often it is sent.

Stop on the run's page raises `StopRequested` in the callback; docs/streaming.md says how each tuner ends then.
"""

import atexit
import collections
import hashlib
import io
import json
import logging
import os
import sys
import threading
import time
import uuid
from typing import Any, Callable, Dict, List, Optional, Tuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

try:
    import fcntl
except ImportError:  # Windows: files of other processes are then left to `python tuneboard.py`.
    CAN_LOCK = False
else:
    CAN_LOCK = True

__all__ = ("StopRequested", "auto_scheduler_callback", "callback", "meta_schedule_callback", "send_spooled")

VERSION = 1
TICK_S = 0.5
"""How long trials are gathered before they are sent."""
BEAT_S = 5.0
"""How often the site hears that the script is alive, and the script whether to stop, while nothing is measured."""
TIMEOUT_S = 10.0
"""For each answer of the site."""
LONGEST_PAUSE_S = 60.0
"""Between two attempts while the site is away or refuses."""
BATCH_BYTES = 256 * 1024
BATCH_TRIALS = 500
LONGEST_TEXT = 16 * 1024
"""Characters of an error's text; a longer one is cut in the middle."""
LONGEST_RECORD = 512 * 1024
"""Characters of a record, and of a workload. A longer one isn't sent: the trial then has its numbers only."""
GONE = 409
"""The site takes no more of this session, and says why."""

logger = logging.getLogger("tuneboard")


class StopRequested(Exception):
    """Somebody has stopped the run on its page."""


class Refused(Exception):
    """The site answered, but not with what was asked for."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def callback(
    url: str,
    token: str,
    network: Optional[str] = None,
    tasks: Optional[List[Any]] = None,
    task_weights: Optional[List[int]] = None,
    **about: Any,
) -> "AutoTVM":
    """For AutoTVM's `tuner.tune`, in its `callbacks`.

    `tasks` are what `extract_from_program` returned, and `task_weights` how often each occurs in the network: AutoTVM tells the
    callback of neither. `about` may have `name`, `project`, `stream` (a name: every script that gives it continues the same
    run), `spool` (the folder for what isn't sent yet) and `stop=False` (to go on when somebody stops the run on its page).

    Calls with the same arguments share a run, so it may be written inside the loop over the tasks.
    """
    sender = _shared(AutoTVM, url, token, network, about)  # type: AutoTVM
    sender.announce(tasks or (), task_weights or ())
    return sender


def auto_scheduler_callback(
    url: str,
    token: str,
    network: Optional[str] = None,
    tasks: Optional[List[Any]] = None,
    task_weights: Optional[List[int]] = None,
    **about: Any,
) -> Any:
    """For auto_scheduler's `TuningOptions`, in its `measure_callbacks`, which may have `RecordToFile` before it.

    `tasks` and `task_weights` are what `extract_tasks` returned: the callback isn't told how often a task occurs.
    """
    measure = _module("tvm.auto_scheduler.measure")
    sender = _shared(AutoScheduler, url, token, network, about)
    sender.announce(tasks or (), task_weights or ())

    class Callback(measure.PythonBasedMeasureCallback):  # type: ignore[misc, name-defined]
        def callback(self, policy: Any, inputs: Any, results: Any) -> None:
            sender(policy, inputs, results)

    return _given_to(Callback(), sender)


def meta_schedule_callback(
    url: str, token: str, network: Optional[str] = None, tasks: Optional[List[Any]] = None, **about: Any
) -> Any:
    """For MetaSchedule's `measure_callbacks`.

    Give `[*MeasureCallback.create("default"), tuneboard.meta_schedule_callback(…)]`, with it last. TVM's own callbacks must be named, too, since the argument replaces them. `tasks` are what
    `extract_tasks` returned: before TVM 0.10 the callback isn't told their weights.
    """
    package = "tvm.s_tir.meta_schedule" if _has("tvm.s_tir.meta_schedule") else "tvm.meta_schedule"
    base = _module(package + ".measure_callback").PyMeasureCallback
    derived_object = _derived_object(package)
    sender = _shared(MetaSchedule, url, token, network, about)
    sender.package = package
    sender.weights.update((str(task.task_name), int(task.weight)) for task in tasks or ())

    @derived_object
    class Callback(base):  # type: ignore[misc, valid-type]
        def apply(self, task_scheduler: Any, task_id: int, candidates: Any, builds: Any, runs: Any) -> None:
            sender(task_scheduler, task_id, candidates, builds, runs)

    return _given_to(Callback(), sender)


def send_spooled(url: str, token: str, spool: Optional[str] = None) -> int:
    """Send what earlier processes couldn't send; return how many files are still left."""
    site, left = Site(url, token), 0
    for delivery in left_over(site, spool):
        try:
            while delivery.step():
                pass
        except Exception as error:
            _once("%s: %s" % (delivery.spool.path, error))
        left += not delivery.done
        delivery.spool.close(remove=delivery.done)
    return left


class Tuner:
    """What the callbacks of all tuners share: the streams, one for each target, and the promise that nothing is raised."""

    engine = ""

    def __init__(self, site: "Site", network: Optional[str], about: Dict[str, Any]) -> None:
        about = dict(about)
        self.weights = {}  # type: Dict[str, int]
        self._stops = bool(about.pop("stop", True))
        self._spool = about.pop("spool", None)
        unknown = set(about) - {"name", "project", "stream"}
        if unknown:
            raise TypeError("there is no option %s" % ", ".join(sorted(unknown)))
        self._site, self._about = site, dict(about, network=network)
        self._key = about.get("stream") or uuid.uuid4().hex
        self._streams = {}  # type: Dict[str, Stream]
        self._keys = {}  # type: Dict[int, Tuple[Any, str]]
        self._lock = threading.Lock()
        atexit.register(self._at_exit)

    def __call__(self, *measured: Any) -> None:
        """Take what the tuner passes. Raises `StopRequested` and nothing else."""
        try:
            with self._lock:
                self.take(*measured)
        except Exception as error:
            _once("A batch wasn't sent to Tuneboard, because of %s: %s" % (type(error).__name__, error))
        if self._stops and any(stream.stop for stream in self._streams.values()):
            for stream in self._streams.values():
                stream.ending = {"status": "stopped"}
            self.on_stop()
            raise StopRequested("The run was stopped on its page at Tuneboard.")

    def take(self, *measured: Any) -> None:
        """Send what was measured."""
        raise NotImplementedError

    def on_stop(self) -> None:
        """Leave the tuner as its own end would."""

    def close(self, timeout_s: float = 10.0) -> bool:
        """Send what is left, for at most so many seconds in all; whether everything was sent. Called at exit, too."""
        until = time.monotonic() + timeout_s
        streams, self._streams = self._streams, {}
        sent = [stream.close(until - time.monotonic()) for stream in streams.values()]
        return all(sent)

    def announce(self, tasks: Any, weights: Any) -> None:
        """Name all tasks at the start, so that the page knows how many there are."""
        try:
            for task, weight in zip(tasks, weights):
                self.weights[_digest(self.identity(task))] = int(weight)
            for task in tasks:
                self.named(task)
        except Exception as error:
            _once("The tasks weren't announced to Tuneboard: %s" % error)

    def named(self, task: Any) -> Tuple["Stream", str]:
        """The task's stream and key; the first time it is described."""
        raise NotImplementedError

    def stream(self, target: str) -> "Stream":
        """The stream of this target: a run has one."""
        if target not in self._streams:
            first = not self._streams
            key = self._key if first else "%s-%s" % (self._key, _digest(target)[:8])
            about = dict(self._about, engine=self.engine, target=target, stream=key, versions=_versions())
            self._streams[target] = Stream(self._site, about, self._spool)
        return self._streams[target]

    def key_of(self, task: Any) -> str:
        """The task's key, computed once for each object."""
        if id(task) not in self._keys:
            self._keys[id(task)] = task, _digest(self.identity(task))
        return self._keys[id(task)][1]

    def identity(self, task: Any) -> str:
        """What makes it this task and no other."""
        raise NotImplementedError

    def _at_exit(self) -> None:
        error = getattr(sys, "last_value", None)
        for stream in self._streams.values():
            if error is not None and not stream.ending:
                stopped = isinstance(error, KeyboardInterrupt)
                text = "%s: %s" % (type(error).__name__, error)
                stream.ending = {"status": "stopped"} if stopped else {"status": "failed", "error": _cut(text)}
        self.close()


class AutoTVM(Tuner):
    engine = "autotvm"

    def take(self, tuner: Any, inputs: Any, results: Any) -> None:  # noqa: ARG002
        """What AutoTVM passes to each of `callbacks`, once a batch."""
        for measured, result in zip(inputs, results):
            stream, key = self.named(measured.task)
            stream.trial(key, self._measured(measured, result))

    def identity(self, task: Any) -> str:
        return repr((task.name, task.args, getattr(task, "kwargs", {})))

    def named(self, task: Any) -> Tuple["Stream", str]:
        stream, key = self.stream(str(task.target)), self.key_of(task)
        if not stream.knows(key):
            flop = _maybe(lambda: float(task.flop))
            workload = _maybe(lambda: json.dumps([task.name, task.args, getattr(task, "kwargs", {})]))
            stream.task(key, name=task.name, flop=flop, weight=self.weights.get(key), workload=workload)
        return stream, key

    def on_stop(self) -> None:
        """`tune` sets this and resets it only when it ends by itself."""
        try:
            _module("tvm.autotvm.env").GLOBAL_SCOPE.in_tuning = False
        except Exception as error:
            _once("AutoTVM's in_tuning wasn't reset: %s" % error)

    def _measured(self, measured: Any, result: Any) -> Dict[str, Any]:
        found = {"at": float(result.timestamp), "error_no": int(result.error_no)}  # type: Dict[str, Any]
        if result.error_no:
            found["error"] = "\n".join(map(str, result.costs))
        else:
            found["costs_s"] = [float(cost) for cost in result.costs]
        found["record"] = _maybe(lambda: _module("tvm.autotvm.record").encode(measured, result))
        return found


class AutoScheduler(Tuner):
    engine = "auto_scheduler"

    def take(self, policy: Any, inputs: Any, results: Any) -> None:  # noqa: ARG002
        """What auto_scheduler passes to a `PythonBasedMeasureCallback`, once a batch."""
        for measured, result in zip(inputs, results):
            stream, key = self.named(measured.task)
            stream.trial(key, self._measured(measured, result))

    def identity(self, task: Any) -> str:
        return str(task.workload_key)

    def named(self, task: Any) -> Tuple["Stream", str]:
        # TVM makes new objects for each batch.
        stream, key = self.stream(str(task.target)), _digest(self.identity(task))
        if not stream.knows(key):
            flop = _maybe(lambda: float(task.compute_dag.flop_ct))
            name = _maybe(lambda: str(task.desc)) or None
            # TVM says -1 where it can't count.
            flop = flop if flop is not None and flop >= 0 else None
            stream.task(key, name=name, flop=flop, weight=self.weights.get(key), workload=self.identity(task))
        return stream, key

    def _measured(self, measured: Any, result: Any) -> Dict[str, Any]:
        found = {"at": _number(result.timestamp), "error_no": int(result.error_no)}  # type: Dict[str, Any]
        if found["error_no"]:
            found["error"] = str(result.error_msg or "")
        else:
            found["costs_s"] = [_number(cost) for cost in result.costs]
        dump = _maybe(lambda: _module("tvm.auto_scheduler.measure_record").dump_record_to_string)
        found["record"] = _maybe(lambda: dump(measured, result)) if dump else None
        return found


class MetaSchedule(Tuner):
    engine = "meta_schedule"
    package = "tvm.meta_schedule"

    def __init__(self, site: "Site", network: Optional[str], about: Dict[str, Any]) -> None:
        super().__init__(site, network, about)
        self._workloads = {}  # type: Dict[str, Any]

    def take(self, task_scheduler: Any, task_id: int, candidates: Any, builds: Any, runs: Any) -> None:
        """What MetaSchedule passes to `MeasureCallback.apply`, once a batch. It has no times of its own."""
        now = time.time()
        tasks = _field(task_scheduler, "tasks_") or task_scheduler.tasks
        context = self._context(tasks[int(task_id)])
        stream, key = self.stream(str(context.target)), "%d" % int(task_id)
        if not stream.knows(key):
            for index, task in enumerate(tasks):
                self._describe(stream, "%d" % index, task)
        for candidate, build, run in zip(candidates, builds, runs):
            stream.trial(key, dict(self._measured(key, context, candidate, build, run), at=now))

    @staticmethod
    def _context(task: Any) -> Any:
        """From TVM 0.10 on, a task's record has its context; before, it is one."""
        return _field(task, "ctx") or task

    def _describe(self, stream: "Stream", key: str, task: Any) -> None:
        context = self._context(task)
        name = _maybe(lambda: str(context.task_name))
        weight = self.weights.get(name)
        weight = _maybe(lambda: int(_field(task, "task_weight"))) if weight is None else weight
        self._workloads[key] = _maybe(lambda: _module(self.package + ".database").Workload(context.mod))
        workload = _maybe(lambda: _as_json(self._workloads[key].as_json()))
        stream.task(key, name=name, flop=_maybe(lambda: float(_field(task, "flop"))), weight=weight, workload=workload)

    def _measured(self, key: str, context: Any, candidate: Any, build: Any, run: Any) -> Dict[str, Any]:
        wrong = _maybe(lambda: build.error_msg)
        if wrong:
            return {"error_kind": "build", "error": str(wrong)}
        if getattr(run, "error_msg", None):
            return {"error_kind": "run", "error": str(run.error_msg)}
        costs = [_number(cost) for cost in run.run_secs]
        return {"costs_s": costs, "record": _maybe(lambda: self._record(key, context, candidate, costs))}

    def _record(self, key: str, context: Any, candidate: Any, costs: List[float]) -> str:
        record = _module(self.package + ".database").TuningRecord(
            candidate.sch.trace, self._workloads[key], costs, context.target, candidate.args_info
        )
        return _as_json(record.as_json())


class Stream:
    """One run of this process: its file, and the thread that sends it."""

    def __init__(self, site: "Site", about: Dict[str, Any], folder: Optional[str]) -> None:
        started = time.time()
        self._header = dict(about, session=uuid.uuid4().hex, started_at=started, url=site.url, client=VERSION)
        self._delivery = Delivery(site, Spool.new(self._header, folder))
        self._lines = collections.deque()  # type: Any
        self._tasks = set()  # type: Any
        self._number = 0
        self.ending = {}  # type: Dict[str, Any]
        self._folder = folder
        self._closing = threading.Event()
        self._until = 0.0
        self._wake = threading.Event()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name="tuneboard", daemon=True)
        self._thread.start()

    @property
    def stop(self) -> bool:
        """Whether somebody has stopped the run on its page."""
        return self._delivery.stop

    def knows(self, key: str) -> bool:
        """Whether the task was named."""
        return key in self._tasks

    def task(self, key: str, **facts: Any) -> None:
        """Name a task; what isn't known is left out."""
        self._tasks.add(key)
        if len(facts.get("workload") or "") > LONGEST_RECORD:
            facts["workload"] = None
        self._add("task", dict(facts, key=key))

    def trial(self, key: str, facts: Dict[str, Any]) -> None:
        """Add the next trial."""
        self._number += 1
        if "error" in facts:
            facts["error"] = _cut(facts["error"])
        if len(facts.get("record") or "") > LONGEST_RECORD:
            facts["record"] = None
        self._add("trial", dict(facts, number=self._number, task=key))

    def close(self, timeout_s: float) -> bool:
        """Send what is left and the end; whether it was sent in time."""
        if os.getpid() != self._process:  # A child that the tuner forked.
            return True
        if not self._closing.is_set():
            self._add("end", self.ending or {"status": "finished"})
            self._closing.set()
        self._until = time.monotonic() + timeout_s
        self._wake.set()
        self._thread.join(max(0.0, timeout_s))
        if not self._delivery.done:
            left = "What Tuneboard hasn't got yet is in %s. The next script that uses Tuneboard sends it."
            _once(left % (self._delivery.spool.path or "no file, so it is lost"))
        return self._delivery.done

    def _add(self, kind: str, facts: Dict[str, Any]) -> None:
        if not self._delivery.done:
            self._lines.append({kind: {name: value for name, value in facts.items() if value is not None}})

    def _work(self) -> None:
        """Until the end is sent. Nothing that goes wrong here may end the thread."""
        pause, due = TICK_S, 0.0
        others = None  # type: Optional[List[Delivery]]
        while not self._delivery.done:
            self._wake.wait(TICK_S)
            self._wake.clear()
            try:
                self._write()
                if time.monotonic() < due and not self._hurries():
                    continue
                self._send()
                others = left_over(self._delivery.site, self._folder) if others is None else others
                self._send_other(others)
                pause = TICK_S
            except Exception as error:
                _once("Tuneboard isn't getting the measurements for now: %s" % error)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                if self._hurries():
                    time.sleep(TICK_S)
            due = time.monotonic() + (pause if pause > TICK_S else 0.0)
        self._delivery.spool.close(remove=True)

    def _hurries(self) -> bool:
        """Whether somebody waits in `close`."""
        return time.monotonic() < self._until

    def _write(self) -> None:
        while self._lines:
            self._delivery.spool.append(self._lines[0])
            self._lines.popleft()

    def _send(self) -> None:
        while self._delivery.step():
            self._write()

    @staticmethod
    def _send_other(others: List["Delivery"]) -> None:
        """A batch of what an earlier process left behind, so that our own never waits for long."""
        if not others:
            return
        other = others[0]
        try:
            more = other.step()
        except Refused as error:
            _once("%s: %s" % (other.spool.path, error))
            more = False
        if not more:
            others.pop(0)
            other.spool.close(remove=other.done)


class Delivery:
    """Brings one spool to the site, batch by batch. The site's answers say how far it has it."""

    def __init__(self, site: "Site", spool: "Spool") -> None:
        self.site, self.spool = site, spool
        self.done = False
        """The site has all of it and its end, or wants no more of it."""
        self.stop = False
        self._run = None  # type: Optional[int]
        self._have = 0
        self._place = spool.begin
        self._heard = 0.0

    def step(self) -> bool:
        """Send the next batch; whether there is more. Raises `Refused` or `OSError`."""
        tasks, trials, end, place = self._next()
        quiet = not (tasks or trials or end)
        if self.done or (quiet and (self._run is None or time.monotonic() < self._heard + BEAT_S)):
            return False
        try:
            return self._exchange(tasks, trials, end, place)
        except Refused as error:
            if error.status == 404 and self._run is not None:  # The site was set up anew, or restored.
                self._run, self._have, self._place = None, 0, self.spool.begin
            if error.status != GONE:
                raise
            _once("Tuneboard takes no more of this run: %s" % error)
            self.done = True
            return False

    def _exchange(self, tasks: Any, trials: Any, end: Any, place: int) -> bool:
        if self._run is None:
            about = {name: value for name, value in self.spool.header.items() if name not in ("url", "client")}
            self._run = self._heed(self.site.post("streams", about))["run"]
            trials = [trial for trial in trials if trial["number"] > self._have]
        body = {"session": self.spool.header["session"], "tasks": tasks, "trials": trials}
        self._heed(self.site.post("streams/%d/trials" % self._run, body))
        if trials and self._have < trials[-1]["number"]:
            if self._have == trials[0]["number"] - 1:
                raise Refused(0, "it took none of the trials from number %d on" % trials[0]["number"])
            self._place = self.spool.begin  # It lost some, or took only the first of these.
            return True
        self._place = place
        if end is not None:
            body = dict(end, session=self.spool.header["session"])
            self._heed(self.site.post("streams/%d/end" % self._run, body))
            self.done = True
        return bool(tasks or trials) and not self.done

    def _heed(self, answer: Dict[str, Any]) -> Dict[str, Any]:
        self._have, self.stop = int(answer["have"]), bool(answer["stop"])
        self._heard = time.monotonic()
        return answer

    def _next(self) -> Tuple[List[Any], List[Any], Optional[Dict[str, Any]], int]:
        tasks = []  # type: List[Any]
        trials = []  # type: List[Any]
        place = self._place
        for line, following in self.spool.read(self._place):
            if following - self._place > BATCH_BYTES and (tasks or trials):
                break
            if "end" in line:
                return tasks, trials, line["end"], following
            if "task" in line:
                tasks.append(line["task"])
            elif line["trial"]["number"] > self._have:
                trials.append(line["trial"])
            place = following
            if len(trials) >= BATCH_TRIALS:
                break
        return tasks, trials, None, place


class Spool:
    """A file with a JSON object a line: first what the stream is about, then tasks, trials and the end."""

    def __init__(self, file: Any, path: Optional[str], ending: Optional[Dict[str, Any]] = None) -> None:
        self._file, self.path, self._ending = file, path, ending
        file.seek(0)
        self.header = json.loads(file.readline().decode("utf-8"))
        self.begin = file.tell()
        file.seek(0, os.SEEK_END)
        self._end = file.tell()

    @classmethod
    def new(cls, header: Dict[str, Any], folder: Optional[str]) -> "Spool":
        """A file of our own, locked; in memory if no folder can be written."""
        line = json.dumps(header).encode("utf-8") + b"\n"
        try:
            folder = _folder(folder)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            path = os.path.join(folder, header["session"] + ".jsonl")
            file = open(path, "xb+", buffering=0)  # type: Any
            _lock(file)
            file.write(line)
            return cls(file, path)
        except OSError as error:
            _once("What Tuneboard hasn't got yet is kept in memory only: %s" % error)
            return cls(io.BytesIO(line), None)

    @classmethod
    def abandoned(cls, path: str) -> Optional["Spool"]:
        """The file of a process that has ended without sending all of it; None if the process still runs."""
        file = None  # type: Any
        try:
            file = open(path, "rb+", buffering=0)
            _lock(file)
            return cls(file, path, {"status": "interrupted"})
        except (OSError, ValueError):  # Another one has it, or its process was killed before it wrote the first line.
            if file:
                file.close()
            return None

    def append(self, line: Dict[str, Any]) -> None:
        """Raises `OSError`; then the file is as before."""
        text = json.dumps(line).encode("utf-8") + b"\n"
        self._file.seek(self._end)
        if self._file.write(text) != len(text):
            raise OSError("no space left for %s" % self.path)
        self._end += len(text)

    def read(self, place: int) -> Any:
        """The whole lines from this byte on, each with where it ends; at the end of a process that was killed, its end."""
        size = BATCH_BYTES
        while place < self._end:
            self._file.seek(place)
            piece = self._file.read(min(size, self._end - place))
            whole = piece[: piece.rfind(b"\n") + 1]
            for text in whole.splitlines(keepends=True):
                place += len(text)
                yield json.loads(text.decode("utf-8")), place
            if not whole and len(piece) < size:  # Its process was killed while it wrote this.
                break
            size *= 1 if whole else 2
        if self._ending:
            yield {"end": self._ending}, place

    def close(self, *, remove: bool) -> None:
        """Give the file to other processes, or remove it."""
        try:
            if remove and self.path:
                os.remove(self.path)
            self._file.close()
        except OSError as error:
            _once("%s: %s" % (self.path, error))


def left_over(site: "Site", folder: Optional[str]) -> List[Delivery]:
    """What earlier processes, which have ended, couldn't send to this site."""
    found = []
    place = _folder(folder)
    for name in sorted(os.listdir(place)) if CAN_LOCK and os.path.isdir(place) else []:
        spool = Spool.abandoned(os.path.join(place, name)) if name.endswith(".jsonl") else None
        if spool and spool.header["url"] == site.url:
            found.append(Delivery(site, spool))
        elif spool:
            spool.close(remove=False)
    return found


class Site:
    def __init__(self, url: str, token: str) -> None:
        self.url, self._token = url.rstrip("/"), token

    def post(self, path: str, body: Dict[str, Any]) -> Dict[str, Any]:
        """The answer. Raises `Refused`, or `OSError` if there is none."""
        headers = {"Authorization": "Bearer " + self._token, "Content-Type": "application/json"}
        data = json.dumps(body).encode("utf-8")
        request = Request("%s/api/v1/%s" % (self.url, path), data, headers, method="POST")
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                return dict(json.loads(answer.read().decode("utf-8")))
        except HTTPError as error:
            raise Refused(error.code, _why(error)) from error
        except ValueError as error:
            raise Refused(0, "%s isn't Tuneboard: %s" % (self.url, error)) from error


def _why(error: HTTPError) -> str:
    try:
        said = json.loads(error.read().decode("utf-8"))["error"]
        fields = "; ".join("%s: %s" % pair for pair in sorted((said.get("fields") or {}).items()))
        return "%s %s" % (said["message"], fields) if fields else str(said["message"])
    except Exception:
        return str(error)


_given = {}  # type: Dict[str, Any]
_said = set()  # type: Any


def _shared(kind: Any, url: str, token: str, network: Optional[str], about: Dict[str, Any]) -> Any:
    """The same object for the same arguments."""
    key = repr((kind.__name__, url, token, network, sorted(about.items())))
    if key not in _given:
        _given[key] = kind(Site(url, token), network, about)
    return _given[key]


def _given_to(callback_object: Any, sender: Tuner) -> Any:
    """The tuner's callback, with `close` where its class allows that."""
    try:
        callback_object.close = sender.close
    except Exception as error:
        logger.debug("No close(): %s", error)
    return callback_object


def _once(message: str) -> None:
    if message not in _said and len(_said) < 100:
        _said.add(message)
        logger.warning(message)


def _derived_object(package: str) -> Any:
    """TVM's decorator of classes that it calls back, which has moved. Raises `ImportError`."""
    for place in (package + ".utils", "tvm.runtime.support", "tvm.ir.utils"):
        if _has(place) and hasattr(_module(place), "derived_object"):
            return _module(place).derived_object
    raise ImportError("this TVM has no derived_object")


def _module(name: str) -> Any:
    return __import__(name, fromlist=["_"])


def _has(name: str) -> bool:
    try:
        return bool(_module(name))
    except ImportError:
        return False


def _maybe(read: Callable[[], Any]) -> Any:
    """What can be read; None where this TVM doesn't have it."""
    try:
        return read()
    except Exception:
        return None


def _field(native: Any, name: str) -> Any:
    """None where TVM's object has no such field. TVM 0.9 would need a second to raise that."""
    return getattr(native, name) if name in dir(native) else None


def _number(value: Any) -> float:
    """A Python number, or one of TVM's."""
    return float(getattr(value, "value", value))


def _as_json(value: Any) -> str:
    """TVM's `as_json` as text: it returns JSON in some versions, and its own arrays in others."""
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "value"):
        return value.value
    if hasattr(value, "items"):
        return dict(value.items())
    return str(value) if isinstance(value, (str, bytes)) else list(value)


def _versions() -> Dict[str, str]:
    found = {"python": "%d.%d.%d" % sys.version_info[:3]}
    for package, module in (("apache-tvm", "tvm"), ("xgboost", "xgboost"), ("numpy", "numpy")):
        if module in sys.modules:
            found[package] = str(getattr(sys.modules[module], "__version__", "not recorded"))
    return found


def _cut(text: str) -> str:
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else text[:half] + "\n…\n" + text[-half:]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _folder(folder: Optional[str]) -> str:
    home = os.path.join(os.path.expanduser("~"), ".cache", "tuneboard")
    return folder or os.environ.get("TUNEBOARD_SPOOL") or home


def _lock(file: Any) -> None:
    """Raises `OSError` if another process has it."""
    if CAN_LOCK:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.environ.get("TUNEBOARD_TOKEN"):
        sys.exit("Use: TUNEBOARD_TOKEN=… python tuneboard.py URL [FOLDER]")
    sys.exit(min(send_spooled(sys.argv[1], os.environ["TUNEBOARD_TOKEN"], *sys.argv[2:3]), 1))
