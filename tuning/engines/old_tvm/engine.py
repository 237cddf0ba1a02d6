"""What both engines share: one process from its first event to its last. `wire.protocol` has the messages, `wire.legacy` the start."""

import argparse
import hashlib
import json
import logging
import os
import random
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional

from . import loading, networks
from .pipes import ControlReader, EventWriter, Message
from .records import RECORDS, RecordFile
from .refusing import Refused
from .trials import Trials

logger = logging.getLogger("tuneboard")
PROTOCOL = 6
"""`wire.protocol.VERSION`."""
LONGEST_NAME = 500


class Extracted(NamedTuple):
    """A task of the network. `workload` identifies it in records; `native` is TVM's own."""

    native: Any
    workload: str
    info: Message


class Run(NamedTuple):
    """All that an engine needs for tuning."""

    start: Message
    target: Any
    tasks: List[Extracted]
    chosen: List[int]
    """Indices of the tasks to tune."""
    trials: Trials
    records: RecordFile
    known: List[Message]
    """Records of earlier runs: `protocol.KnownRecord`."""
    report: Callable[..., None]
    """Sends an event."""


class Engine(NamedTuple):
    """What distinguishes one engine from the other."""

    name: str
    extract: Callable[[Message, networks.Built, Any], List[Extracted]]
    """From start, network and target."""
    read_workload: Callable[[Dict[str, Any]], str]
    """What identifies the task of a record."""
    read_record: Callable[[str], Any]
    """TVM's objects of a record. Raises any error for one that TVM can't read."""
    tune: Callable[[Run], str]
    """Tune until no trial is left; return why, as in `protocol.Finished`."""


def main(engine: Engine) -> None:
    """Run one engine process."""
    parser = argparse.ArgumentParser(prog=f"python -m tuning.engines.old_tvm.{engine.name}")
    parser.add_argument("--events-fd", type=int, required=True, help="file descriptor of a pipe to write events to")
    events = EventWriter(parser.parse_args().events_fd)
    logging.basicConfig(stream=sys.stdout, format="%(asctime)s [%(levelname)s] %(message)s")
    for name in ("tuneboard", "auto_scheduler"):  # TVM's compiler would say much more.
        logging.getLogger(name).setLevel(logging.INFO)
    controls = ControlReader(on_stop=lambda: events.exit_with("finished", reason="stopped"))
    controls.on_hold = events.hold
    try:
        start = controls.read_start()
        if start:
            controls.watch()
            _tune(engine, start, controls, events)
    except Refused as refused:
        _fail(events, str(refused), refused.field)
    except Exception as error:  # noqa: BLE001  the supervisor must learn of any error
        traceback.print_exc(file=sys.stdout)
        _fail(events, loading.in_one_line(error), None)


def _fail(events: EventWriter, error: str, field: Optional[str]) -> NoReturn:
    logger.error("%s", error)
    events.exit_with("failed", error=error, field=field)


def _tune(engine: Engine, start: Message, controls: ControlReader, events: EventWriter) -> NoReturn:
    if start["scratch"]:
        tempfile.tempdir = os.environ["TMPDIR"] = start["scratch"]
    _load(engine, events)
    target = _target(start)
    events.send("phase", name="extracting")
    tasks = engine.extract(start, networks.build(start), target)
    if not tasks:
        raise Refused("{} has no tasks to tune.".format(start["network"]["name"]), "network")
    chosen = _chosen(start, len(tasks))
    infos = [dict(task.info, index=index, chosen=index in chosen) for index, task in enumerate(tasks)]
    events.send("tasks", target=start["target"], tasks=infos)
    records = RecordFile(_work_dir(start) / RECORDS, engine.read_workload)
    trials = Trials(start, [info["name"] for info in infos], events, records)
    known = _readable(engine, controls.warm_start_records()) if start["expect_warm_start"] else []
    trials.obey(controls)
    _recover(trials, records, tasks)
    if not trials.left:
        trials.finish("budget")
    run = Run(
        start, target, tasks, chosen, trials, records, [one for one in known if one["task"] in chosen], events.send
    )
    if run.known:
        _report_warm_start(events, run.known)
    _seed(start["options"]["seed"], trials.done)
    trials.finish(engine.tune(run))


def _load(engine: Engine, events: EventWriter) -> None:
    loading.prepare()
    try:
        import tvm  # noqa: F401
    except Exception as error:
        raise Refused(f"This interpreter's TVM can't be imported: {loading.in_one_line(error)}") from error
    events.send("hello", version=PROTOCOL, engine=engine.name, pid=os.getpid(), versions=loading.versions())
    events.send("phase", name="loading")


def _target(start: Message) -> Any:
    from tvm.target import Target

    try:
        return Target(start["target"])
    except Exception as error:
        raise Refused(f"This TVM knows no such target: {loading.in_one_line(error)}", "target") from error


def _chosen(start: Message, tasks: int) -> List[int]:
    given = start["options"]["tasks"]
    chosen = list(range(tasks)) if given is None else sorted(set(given))
    unknown = [task for task in chosen if task >= tasks]
    if unknown:
        name, listed = start["network"]["name"], ", ".join(map(str, unknown))
        raise Refused(f"{name} has no task {listed}: its {tasks} are numbered from 0.", "tasks")
    return chosen


def _work_dir(start: Message) -> Path:
    work_dir = Path(start["work_dir"])
    work_dir.mkdir(parents=True, exist_ok=True)
    return work_dir


def _recover(trials: Trials, records: RecordFile, tasks: List[Extracted]) -> None:
    message = records.repair()
    if message:
        logger.warning("%s", message)
    try:
        trials.recover(records.lines(), {task.workload: index for index, task in enumerate(tasks)})
    except ValueError as error:
        raise Refused(str(error)) from error


def _readable(engine: Engine, known: List[Message]) -> List[Message]:
    found = []
    for one in known:
        try:
            engine.read_record(one["text"])
        except Exception as error:  # noqa: BLE001  a record of another version is no reason not to tune
            reason = loading.in_one_line(error)
            logger.warning("Ignored a record of run %d for task %d: %s", one["run"], one["task"], reason)
        else:
            found.append(one)
    return found


def _report_warm_start(events: EventWriter, known: List[Message]) -> None:
    tasks, runs = ({one[name] for one in known} for name in ("task", "run"))
    events.send("warm_started", tasks=sorted(tasks), runs=sorted(runs))


def _seed(seed: Optional[int], trials_done: int) -> None:
    """Use the run's seed, changed when it is resumed, because the same seed would draw the same candidates again."""
    if seed is None:
        return
    import numpy as np

    now = (seed + trials_done) % 2**31
    random.seed(now)
    np.random.seed(now)


def workload_hash(engine: str, workload: Any) -> str:
    """Identifies a workload, on any target, by what records say of it. `tuning.logs` makes the same of a log."""
    canonical = json.dumps([engine, workload], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(canonical.encode(), digest_size=20).hexdigest()


def shortened(name: str) -> str:
    """A task's name with no more characters than Tuneboard keeps."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
