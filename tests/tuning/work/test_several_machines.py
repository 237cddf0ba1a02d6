"""A run goes on wherever a worker takes it: no machine has files that others lack. Machines are folders of one database."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from tests.engine_fixtures import Play
from tests.storage_fixtures import On, use
from tests.world import claimed, extracted, make_run, record_line, trial, workload_text
from tuning.actions.runs import resume
from tuning.engines.wire.protocol import VERSION, Finished, Hello
from tuning.models import Run, StoredFile
from tuning.reads.console import console
from tuning.reads.downloads import record_file
from tuning.storage import Away, Store
from tuning.work import copies, supervisor
from tuning.work.copies import RecordCopy
from tuning.work.recorder import Recorder
from tuning.work.supervisor import supervise

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})
LATENCIES = (5e-3, 4e-3, 3e-3, 2e-3, 1e-3)


def measured(latency_s: float) -> tuple[Any, Any]:
    """What the engine does for a trial: it writes the record, then reports it."""
    return {"do": "record", "text": f"[0,{record_line(latency_s)}]"}, trial(0, latency_s)


def printed(text: str) -> dict[str, str]:
    return {"do": "print", "text": text}


def steps(*latencies: float) -> list[Any]:
    return [step for latency_s in latencies for step in measured(latency_s)]


def tune(run: Run) -> Run:
    supervise(claimed(run), threading.Event())
    return Run.objects.get(pk=run.pk)


def lines(run: Run, store: Store) -> list[str]:
    with store.opened(run.record_file) as file:
        return file.read().decode().splitlines()


def expected(*latencies: float) -> list[str]:
    return [f"[0,{record_line(latency_s)}]" for latency_s in latencies]


@pytest.fixture
def interrupted(play: Play, shared: Store) -> Run:
    """Three trials were measured here, then the engine was killed."""
    play(HELLO, extracted(1), printed("from here"), *steps(*LATENCIES[:3]), {"do": "kill"})
    return tune(make_run(trials_budget=5))


def test_another_machine_shows_what_is_going_on(interrupted: Run, shared: Store, machine: On) -> None:
    machine("there")
    assert not interrupted.work_dir.exists()
    assert lines(interrupted, shared) == expected(*LATENCIES[:3])
    assert console(interrupted)["text"] == "from here\n"
    assert "Its last lines:\nfrom here" in str(interrupted.error)


def test_another_machine_goes_on_and_no_trial_is_lost(interrupted: Run, shared: Store, machine: On, play: Play) -> None:
    assert not interrupted.work_dir.exists(), "all of it is stored"
    there = machine("there")
    play(HELLO, extracted(1), printed("from there"), *steps(*LATENCIES), Finished("budget"))
    run = tune(resume(interrupted))
    assert (run.status, run.trials_done) == ("finished", 5)
    assert list(run.trials.values_list("latency_s", flat=True)) == list(LATENCIES)
    assert lines(run, shared) == expected(*LATENCIES)
    assert list((there / "runs").iterdir()) == []
    machine("a third one")
    assert console(run)["text"] == "from here\nfrom there\n"


def test_records_that_were_measured_after_the_machine_was_lost_are_replaced(
    interrupted: Run, shared: Store, machine: On, play: Play
) -> None:
    """Here, a record was written that nobody heard of. Meanwhile the run went on elsewhere."""
    copies.bring(interrupted)
    with interrupted.record_file.open("a") as file:
        file.write("[0,a record of which nobody heard]\n")
    machine("there")
    play(HELLO, extracted(1), *steps(*LATENCIES[:4]), {"do": "kill"})
    tune(resume(interrupted))
    machine("here")
    play(HELLO, extracted(1), *steps(*LATENCIES), Finished("budget"))
    run = tune(resume(Run.objects.get(pk=interrupted.pk)))
    assert lines(run, shared) == expected(*LATENCIES)


def test_a_record_that_only_this_machine_has_is_recovered(interrupted: Run, shared: Store, play: Play) -> None:
    copies.bring(interrupted)
    with interrupted.record_file.open("a") as file:
        file.write(f"{expected(LATENCIES[3])[0]}\n[0,half a li")
    play(HELLO, extracted(1), *steps(*LATENCIES[:4]), {"do": "kill"})
    run = tune(resume(interrupted))
    assert run.trials_done == 4
    assert lines(run, shared) == expected(*LATENCIES[:4]), "a line without its end isn't stored"
    assert run.record_file.exists(), "it is ahead of the store"


def test_files_of_a_run_from_before_they_were_shared_are_stored_with_its_next_trial(
    interrupted: Run, shared: Store, play: Play
) -> None:
    copies.bring(interrupted)
    StoredFile.objects.all().delete()
    assert lines(interrupted, shared) == expected(*LATENCIES[:3]), "until then they are read where they are"
    play(HELLO, extracted(1), *steps(*LATENCIES), Finished("budget"))
    run = tune(resume(interrupted))
    assert shared.stored(run.record_file) > 0
    assert lines(run, shared) == expected(*LATENCIES)


def test_trials_and_their_records_are_stored_together_or_not_at_all(
    shared: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = claimed(make_run())
    recorder = Recorder(run, RecordCopy(run))
    recorder.record([extracted(1)])
    write(run, *LATENCIES[:2])
    add, failures = shared.append, [OperationalError("connection refused")]

    def fail_once(path: Path, start: int, data: bytes) -> None:
        add(path, start, data)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(shared, "append", fail_once)
    events = [trial(0, latency_s) for latency_s in LATENCIES[:2]]
    with pytest.raises(OperationalError):
        recorder.record(events)
    assert (shared.stored(run.record_file), Run.objects.get(pk=run.pk).trials_done) == (0, 0)
    recorder.record(events)
    assert (lines(run, shared), Run.objects.get(pk=run.pk).trials_done) == (expected(*LATENCIES[:2]), 2)


def write(run: Run, *latencies: float) -> None:
    run.work_dir.mkdir(parents=True, exist_ok=True)
    run.record_file.write_text("".join(f"{line}\n" for line in expected(*latencies)))


def test_lines_of_trials_that_are_not_counted_yet_are_not_stored(shared: Store) -> None:
    run = claimed(make_run())
    recorder = Recorder(run, RecordCopy(run))
    write(run, *LATENCIES)
    recorder.record([extracted(1), trial(0, LATENCIES[0])])
    assert lines(run, shared) == expected(LATENCIES[0])
    recorder.record([trial(0, latency_s) for latency_s in LATENCIES[1:]])
    assert lines(run, shared) == expected(*LATENCIES)


def test_a_trial_without_its_record_is_told(shared: Store, caplog: pytest.LogCaptureFixture) -> None:
    run = claimed(make_run())
    Recorder(run, RecordCopy(run)).record([extracted(1), trial(0, 1e-3)])
    assert "has fewer lines than trials" in caplog.text


def test_a_supervisor_whose_run_was_taken_stores_nothing_over_it(
    play: Play, shared: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = claimed(make_run())
    play(HELLO, extracted(1), printed("mine"), {"do": "ignore"})
    monkeypatch.setattr(supervisor, "PRINT_S", 0.0)
    bring = copies.bring

    def and_lose(taken: Run) -> None:
        bring(taken)
        shared.append(taken.console_log, 0, b"another's\n")
        monkeypatch.setattr(type(shared), "stored", lambda *_: 0)
        monkeypatch.setattr("tuning.storage.shared.SharedStore._make_room", lambda *_: None)

    monkeypatch.setattr(supervisor, "bring", and_lose)
    supervise(run, threading.Event())
    with shared.opened(run.console_log) as file:
        assert file.read() == b"another's\n"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        Away("The bucket lab (TUNEBOARD_STORAGE) can't be used: timed out"),
    ],
    ids=["full disk", "store away"],
)
def test_a_machine_that_cant_get_the_files_says_why_and_another_goes_on(
    interrupted: Run, shared: Store, machine: On, play: Play, error: OSError
) -> None:
    def fail(*_: Any) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuning.storage.shared.shutil.copyfileobj", fail)
        run = tune(resume(interrupted))
    assert (run.status, run.trials_done) == ("failed", 3)
    assert str(error.strerror or error) in str(run.error)
    assert lines(run, shared) == expected(*LATENCIES[:3])
    machine("there")
    play(HELLO, extracted(1), *steps(*LATENCIES), Finished("budget"))
    assert tune(resume(run)).status == "finished"
    assert lines(run, shared) == expected(*LATENCIES)


def test_all_records_are_downloaded_from_any_machine(shared: Store, machine: On) -> None:
    run = claimed(make_run())
    recorder = Recorder(run, RecordCopy(run))
    write(run, *LATENCIES)
    (run.work_dir / "database_workload.json").write_text(f"{workload_text(12)}\n")
    recorder.record([extracted(1), *(trial(0, latency_s) for latency_s in LATENCIES)])
    run.refresh_from_db()
    machine("there")
    text = b"".join(record_file(run, "jsonl", "all").pieces).decode()
    assert text.count('"record"') == 5
    assert f'"workload":{workload_text(12)}' in text


@pytest.fixture
def left(interrupted: Run, shared: Store) -> Run:
    """As `interrupted`, but this machine crashed before it removed its copies."""
    copies.bring(interrupted)
    assert [path.name for path in interrupted.work_dir.iterdir()] == [interrupted.record_file.name]
    assert interrupted.console_log.exists()
    return interrupted


@pytest.mark.parametrize(
    ("content", "stays"),
    [
        (lambda stored: stored, False),
        (lambda stored: stored[:-9], False),
        (lambda stored: stored + b"[0,", True),
        (lambda stored: stored[:-9] + b"x" * 9, True),
        (lambda stored: b"x" + stored[1:-9], True),
    ],
    ids=["as stored", "behind", "ahead", "another", "another and behind"],
)
def test_what_a_crash_has_left_is_removed_if_it_is_stored(left: Run, content: Any, stays: bool) -> None:
    left.record_file.write_bytes(content(left.record_file.read_bytes()))
    copies.release_left()
    assert left.work_dir.exists() == left.console_log.exists() == stays
    assert len(expected(*LATENCIES[:3])) == left.trials_done


def test_copies_that_may_be_needed_stay(
    left: Run, shared: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = left.work_dir.with_name("999-20260101T000000.000000")
    shutil.copytree(left.work_dir, unknown)
    with monkeypatch.context() as patch:
        patch.setattr(type(shared), "holds", lambda *_: (_ for _ in ()).throw(Away("the object store is away")))
        copies.release_left()
    assert left.work_dir.exists()
    Run.objects.filter(pk=left.pk).update(status="running")
    copies.release_left()
    assert left.work_dir.exists()
    Run.objects.filter(pk=left.pk).update(status="failed")
    use(settings, None)
    copies.release_left()
    assert left.work_dir.exists(), "with TUNEBOARD_STORAGE=files these are the only ones"
    use(settings, "")
    StoredFile.objects.all().delete()
    copies.release_left()
    assert left.work_dir.exists(), "they were never moved to the store"
    assert unknown.exists(), "of a run that the database doesn't know"
