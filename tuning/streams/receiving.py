"""Takes what scripts send while they tune. Whatever is sent twice, late, or by several processes at once counts once.

Each process has a session, which numbers its trials. Of a message the trials that follow the last stored one are taken, up to
the first gap; the answer says how far that is, and the script goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from tuning import audit
from tuning.actions import projects
from tuning.actions.launching import run_name
from tuning.logs.neutral import BadLine, EngineName
from tuning.models import (
    Network,
    Project,
    Run,
    RunDelta,
    Stream,
    StreamDict,
    StreamSession,
    fingerprint,
    iso,
)
from tuning.models.lifecycle import drawn_lease
from tuning.models.run import STREAM_PATIENCE
from tuning.notify.announce import announce, announce_status
from tuning.records import why_refused
from tuning.validation import Conflict, Invalid
from tuning.work.elsewhere import outside
from tuning.work.elsewhere.outside import Measured
from tuning.work.failures import nothing_valid
from tuning.work.told import TasksTold, ToldTask

from .limits import check_streams
from .messages import MOST_TASKS, Batch, Ending, Opening, SentTask, SentTrial, outcome_of, read, target_of, task_of

Status = Run.Status
DELETED = "The run was deleted. Restore it to continue it, or begin another stream."
KILLED = "The script ended without a word: its process was killed."


def begin(given: Mapping[str, Any], user: User | None) -> StreamDict:
    """Begin a run, or continue the one that the stream's name says, with this session. Raises `Invalid`, `Conflict` or `Busy`."""
    opening = read(Opening, given)
    project = projects.chosen(opening.project, user, projects.LAUNCH)
    target = target_of(opening.target)
    try:
        stream, session = _begun(opening, project, target, user)
    except IntegrityError:  # Another process of the same stream was faster.
        stream, session = _begun(opening, project, target, user)
    announce_status(stream.run)
    return _answer(stream.run, session)


def take(run: Run, given: Mapping[str, Any]) -> StreamDict:
    """Store the message's tasks and trials that aren't stored yet. Raises `Invalid`, `Conflict` or `Busy`; then nothing is."""
    batch = read(Batch, given)
    with _locked(run) as stream:
        session = _session(stream, batch.session)
        fresh = _following(batch.trials, session.taken)
        if session.ended_at and fresh:
            raise Conflict(f"The session has ended with {session.taken} trials. Begin another session.")
        delta = None
        if not session.ended_at:
            if stream.run.status not in Run.LIVE:
                check_streams(stream.run.created_by)
            _go_on(stream.run)
            delta = _stored(stream, session, batch.tasks, fresh)
            session.taken += len(fresh)
            session.heard_at = timezone.now()
            session.save(update_fields=("taken", "heard_at"))
    if delta:
        announce(run.pk, delta)
    return _answer(stream.run, session)


def end(run: Run, given: Mapping[str, Any]) -> StreamDict:
    """End the session, and the run if none of its other sessions was heard of lately. Raises `Invalid` or `Conflict`."""
    ending = read(Ending, given)
    with _locked(run) as stream:
        session = _session(stream, ending.session)
        if session.ended_at is None:
            session.ended_at = timezone.now()
            session.save(update_fields=("ended_at",))
            with audit.act("stream.end", stream.run, status=ending.status):
                _end_run(stream, ending)
    announce_status(stream.run)
    return _answer(stream.run, session)


def _begun(
    opening: Opening, project: Project, target: dict[str, Any], user: User | None
) -> tuple[Stream, StreamSession]:
    with transaction.atomic():
        streams = Stream.objects.select_for_update(of=("self",)).select_related("run")
        stream = streams.filter(project=project, key=opening.stream).first()
        if stream:
            _refuse_another(stream.run, opening, target)
            if known := stream.sessions.filter(key=opening.session).first():
                return stream, known
        if stream is None or stream.run.status not in Run.LIVE:
            check_streams(user)
        with audit.act("stream.start", stream.run if stream else None, stream=opening.stream) as act:
            if stream is None:
                run = act.of = _made(opening, project, target, user)
                stream = Stream.objects.create(run=run, project=project, key=opening.stream)
            return stream, _joined(stream, opening)


def _made(opening: Opening, project: Project, target: dict[str, Any], user: User | None) -> Run:
    called = (opening.network or "").strip()
    network = Network.objects.called(called, project) if called else None
    now = timezone.now()
    return Run.objects.create(
        name=run_name(opening.name or called or f"{opening.engine} from a script"),
        engine=opening.engine,
        origin=Run.Origin.STREAMED,
        project=project,
        network=network,
        target=target,
        device="",
        status=Status.RUNNING,
        lease=drawn_lease(),
        heartbeat_at=now,
        created_by=user,
        queued_at=now,
        started_at=now,
    )


def _joined(stream: Stream, opening: Opening) -> StreamSession:
    """The new session of a run that goes on."""
    run = stream.run
    if run.status not in Run.LIVE:
        run.go_on(stopping=False)
    now = timezone.now()
    began = opening.started_at if opening.started_at is not None else now.timestamp()
    told = {"trial": run.trials_done + 1, "started_at": iso(now), "tvm": opening.versions.get("apache-tvm")}
    run.held().update(sessions=[*run.sessions, told], versions=run.versions | opening.versions, heartbeat_at=now)
    session = stream.sessions.create(key=opening.session, began=began, offset_s=run.elapsed_s or 0.0, heard_at=now)
    run.refresh_from_db()
    return session


def _refuse_another(run: Run, opening: Opening, target: dict[str, Any]) -> None:
    if run.deleted_at:
        raise Conflict(DELETED)
    if run.engine != opening.engine or run.target_fingerprint != fingerprint(target):
        raise Conflict(
            f"The stream {opening.stream!r} is run {run.pk}, by {run.engine} for another target or by another engine "
            "than this one. Give this one another name."
        )


@contextmanager
def _locked(run: Run) -> Iterator[Stream]:
    """The run's stream, which nobody else changes meanwhile. Raises `Conflict`."""
    with transaction.atomic():
        streams = Stream.objects.select_for_update(of=("self",)).select_related("run__network", "run__project")
        stream = streams.filter(run=run).first()
        if stream is None:
            raise Conflict("The run isn't streamed by a script.")
        if stream.run.deleted_at:
            raise Conflict(DELETED)
        yield stream


def _session(stream: Stream, key: str) -> StreamSession:
    session = stream.sessions.filter(key=key).first()
    if session is None:
        raise Invalid({"session": "There is no such session of this run. Begin it with POST /api/v1/streams."})
    return session


def _following(trials: list[SentTrial], taken: int) -> list[tuple[int, SentTrial]]:
    """Those that come next, each with its place in the message."""
    found = []
    for place, trial in sorted(enumerate(trials), key=lambda each: each[1].number):
        if trial.number == taken + 1:
            taken += 1
            found.append((place, trial))
    return found


def _go_on(run: Run) -> None:
    """Renew the lease, or take the run up again if it had been given up or another session had ended it."""
    if run.status in Run.LIVE:
        run.renew()
    else:
        run.go_on(stopping=run.status == Status.STOPPED)


def _stored(
    stream: Stream, session: StreamSession, tasks: list[SentTask], trials: list[tuple[int, SentTrial]]
) -> RunDelta | None:
    fresh = {sent.key: sent for sent in tasks if sent.key not in stream.tasks}
    if len(stream.tasks) + len(fresh) > MOST_TASKS:
        raise Invalid({"tasks": f"A run has at most {MOST_TASKS:,} tasks."})
    if not (fresh or trials):
        return None
    engine: EngineName = stream.run.engine  # type: ignore[assignment]
    told = [
        ToldTask(index, task_of(engine, stream.run.target, sent))
        for index, sent in enumerate(fresh.values(), start=len(stream.tasks))
    ]
    stream.tasks = stream.tasks | {key: one.index for key, one in zip(fresh, told, strict=True)}
    lines = {one.index: one.task.workload for one in told if engine == "meta_schedule" and one.task.workload}
    measured = [_measured(engine, stream, session, trial, place) for place, trial in trials]
    refused = {place: why for place, trial in enumerate(measured) if (why := _why_refused(engine, trial.record))}
    _note_refused(stream.run, {trials[place][1].number: why for place, why in refused.items()})
    usable = [trial._replace(record=None) if place in refused else trial for place, trial in enumerate(measured)]
    return outside.record(stream, usable, TasksTold(None, told) if told else None, lines)


def _why_refused(engine: EngineName, record: str | None) -> str | None:
    """Why the record can't be used; that of MetaSchedule comes without the number of its workload."""
    return record and why_refused(engine, f"[0,{record}]" if engine == "meta_schedule" else record)


def _note_refused(run: Run, reasons: Mapping[int, str]) -> None:
    """List the trials whose records aren't stored; the trials themselves count. `reasons` are by number in the session."""
    lines = [BadLine("stream", number, f"its record can't be used: {why}") for number, why in reasons.items()]
    outside.note_bad(run, lines)


def _measured(engine: EngineName, stream: Stream, session: StreamSession, sent: SentTrial, place: int) -> Measured:
    index = stream.tasks.get(sent.task)
    if index is None:
        raise Invalid({f"trials[{place}].task": f"There is no task {sent.task[:60]!r}. Send it in `tasks` first."})
    latency_s, kind = outcome_of(engine, sent, place)
    record = sent.record if sent.record and "\n" not in sent.record.strip() else None
    at_s = session.at_s(sent.at)
    return Measured(index, latency_s, kind, (sent.error or None) if kind else None, at_s, record and record.strip())


def _end_run(stream: Stream, ending: Ending) -> None:
    run = stream.run
    heard = stream.sessions.filter(ended_at=None, heard_at__gt=timezone.now() - STREAM_PATIENCE)
    if heard.exists():
        return
    _go_on(run)
    run.refresh_from_db()
    to, error = _verdict(run, ending)
    run.finish(to=to, error=error)


def _verdict(run: Run, ending: Ending) -> tuple[str, str | None]:
    if run.status == Status.STOPPING:
        return Status.STOPPED, None
    if ending.status == "interrupted":
        return Status.INTERRUPTED, KILLED
    if ending.status == "finished" and run.trials_done == run.trials_failed:
        return Status.FAILED, nothing_valid(run)
    return ending.status, ending.error


def _answer(run: Run, session: StreamSession) -> StreamDict:
    stop = run.status == Status.STOPPING and session.ended_at is None
    return {"run": run.pk, "status": run.status, "have": session.taken, "stop": stop}
