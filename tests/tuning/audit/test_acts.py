"""An act and its entry are stored together, by whoever acts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import IntegrityError
from django.db.models.signals import post_save

from tests.world import make_run, make_user, measured_run
from tuning import audit
from tuning.actions import curation, runs
from tuning.audit import Actor
from tuning.models import AuditEntry, Run, Tag
from tuning.queue import jobs
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "enqueue", lambda _: None)


def entries() -> list[tuple[str, str, bool]]:
    rows = AuditEntry.objects.order_by("pk")
    return [(entry.action, f"{entry.object_kind} {entry.object_id}", entry.refused) for entry in rows]


def test_an_act_is_recorded_with_who_did_it() -> None:
    run = make_run(name="first")
    with audit.acting_as(lambda: Actor("ada", 7, "api", "token 3 of ada", "10.0.0.9")):
        runs.stop(run)
    entry = AuditEntry.objects.get()
    by = (entry.actor, entry.actor_id, entry.via, entry.token, entry.address)
    assert by == ("ada", 7, "api", "token 3 of ada", "10.0.0.9")
    assert (entry.action, entry.object_kind, entry.object_id, entry.object_name) == ("run.stop", "run", run.pk, "first")
    assert (entry.details, entry.to_dict()["outcome"], entry.reason) == ({}, "done", "")


def test_a_conflict_is_recorded_as_refused_and_changes_nothing() -> None:
    run = measured_run()
    run.move("running", to="finished")
    with pytest.raises(Conflict):
        runs.stop(run)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.refused) == ("run.stop", True)
    assert "only a queued or running run can be stopped" in entry.reason


def test_invalid_input_is_no_act() -> None:
    run = make_run()
    with pytest.raises(Invalid):
        runs.extend(run, {"trials": "many"})
    with pytest.raises(Invalid):
        runs.extend(run, {})
    assert entries() == []


def test_of_several_acts_in_one_all_are_recorded_or_only_the_refusal() -> None:
    run = make_run()
    curation.mark(run, {"add_tags": ["a"], "pinned": True})
    assert entries() == [("run.tag", f"run {run.pk}", False), ("run.pin", f"run {run.pk}", False)]
    Run.objects.filter(pk=run.pk).update(archived=True, pinned=False)
    with pytest.raises(Conflict):
        curation.mark(run, {"add_tags": ["b"], "pinned": True})
    assert entries()[2:] == [("run.pin", f"run {run.pk}", True)]
    assert list(run.tags.values_list("name", flat=True)) == ["a"]


def test_a_bulk_action_has_an_entry_for_each_run() -> None:
    queued, done = make_run(), measured_run()
    done.move("running", to="finished")
    curation.act(None, "stop", [queued.pk, done.pk])
    assert entries() == [("run.stop", f"run {queued.pk}", False), ("run.stop", f"run {done.pk}", True)]


def test_an_edit_says_what_changed_but_doesnt_copy_notes() -> None:
    from tuning.actions import editing

    run = make_run(name="old", notes="abc")
    editing.edit(run, {"revision": run.revision, "name": "new", "notes": "x" * 5000}, None)
    details = AuditEntry.objects.get().details
    assert details == {"name": {"from": "old", "to": "new"}, "notes_characters": {"from": 3, "to": 5000}}


def test_long_and_strange_texts_are_stored_cut() -> None:
    audit.record("run.edit", audit.Thing("run", 1, "n" * 1000), text="a\0b\ud800" + "x" * 5000, many=["y" * 5000])
    entry = AuditEntry.objects.get()
    assert len(entry.object_name) == 255
    assert entry.details["text"].startswith("a\N{REPLACEMENT CHARACTER}b?x")
    assert len(entry.details["text"]) == len(entry.details["many"][0]) == audit.LONGEST_TEXT


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("fails", ["the commit", "the entry"])
def test_without_the_entry_there_is_no_change_and_without_the_change_no_entry(fails: str) -> None:
    def break_commit(**_: Any) -> None:
        if fails == "the entry":
            raise IntegrityError("no room")
        # A reference to a run that doesn't exist: databases notice at the commit.
        Tag.objects.create(run_id=999_999, name="x")

    run = make_run()
    post_save.connect(break_commit, sender=AuditEntry)
    try:
        with pytest.raises(IntegrityError):
            runs.stop(run)
    finally:
        post_save.disconnect(break_commit, sender=AuditEntry)
    run.refresh_from_db()
    assert (run.status, AuditEntry.objects.count(), Tag.objects.count()) == ("queued", 0, 0)


@pytest.mark.django_db(transaction=True)
def test_an_error_in_the_middle_leaves_neither() -> None:
    run = make_run()

    def stop_badly() -> None:
        with audit.act("run.stop", run):
            Run.objects.filter(pk=run.pk).update(status="stopped")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stop_badly()
    run.refresh_from_db()
    assert (run.status, AuditEntry.objects.count()) == ("queued", 0)


def test_whoever_acts_is_known_in_threads_that_asgiref_starts() -> None:
    async def ask() -> list[str]:
        name = sync_to_async(lambda: audit._acting.get()().name, thread_sensitive=False)
        with audit.acting_as(lambda: Actor("ada")):
            inside = await name()
        return [inside, await name()]

    assert async_to_sync(ask)() == ["ada", ""]


def test_requests_at_the_same_time_dont_act_for_each_other() -> None:
    found: list[str] = []
    barrier = threading.Barrier(2)

    def act(name: str) -> None:
        with audit.acting_as(lambda: Actor(name)):
            barrier.wait()
            found.append(audit._acting.get()().name)
            barrier.wait()

    threads = [threading.Thread(target=act, args=(name,)) for name in ("ada", "eve")]
    with audit.acting_as(lambda: Actor("grace")):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == ["ada", "eve"]


def test_nobody_else_is_the_site() -> None:
    audit.record("run.remove")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.actor_id, entry.via) == ("", None, "site")


def test_an_entry_outlives_the_person() -> None:
    user = make_user("operator", "ada")
    with audit.acting_as(lambda: Actor("ada", user.pk, "page")):
        runs.stop(make_run(created_by=user))
    key = user.pk
    user.delete()
    assert AuditEntry.objects.filter(actor="ada", actor_id=key).count() == 1


def test_an_act_costs_one_insert(django_assert_num_queries: Any) -> None:
    run = make_run()
    transaction = 2  # its begin and its end, which the test counts since it has one of its own
    with django_assert_num_queries(transaction + 2), audit.act("run.pin", run):
        Run.objects.filter(pk=run.pk).update(pinned=True)
