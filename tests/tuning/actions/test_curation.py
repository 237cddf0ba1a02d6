"""Tag, pin, archive, delete and restore runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.world import claimed, make_compilation, make_run
from tuning.actions import curation
from tuning.actions.curation import MOST_PINNED, MOST_TAGS, act, change_tags, mark, tag_names
from tuning.models import Run
from tuning.validation import Conflict, Invalid

pytestmark = pytest.mark.django_db


def tags(run: Run) -> list[str]:
    return list(run.tags.values_list("name", flat=True))


def marks(run: Run) -> tuple[bool, bool]:
    now = Run.objects.get(pk=run.pk)
    return now.pinned, now.archived


def test_tags_can_be_added_and_removed() -> None:
    run = make_run()
    change_tags(run, ["good", "Good", "old"])
    change_tags(run, ["good"], ["old", "absent"])
    assert tags(run) == ["good"]


def test_tags_are_normalized_to_lowercase_words() -> None:
    assert tag_names("B-1, c_2\t v1.0/x  B-1") == ["b-1", "c_2", "v1.0/x"]
    assert tag_names(["E\u0301te\u0301"]) == ["\u00e9t\u00e9"]
    assert tag_names("") == tag_names([]) == []


@pytest.mark.parametrize(
    "given", ["<b>", "-a", "a" * 41, ["two words"], [1], {"a": 1}, None, ["a"] * 41, "a\0b", ["\u202ea"]]
)
def test_it_refuses_invalid_tags(given: Any) -> None:
    with pytest.raises(Invalid) as refused:
        tag_names(given)
    assert list(refused.value.fields) == ["tags"]


def test_the_number_of_tags_is_limited() -> None:
    run = make_run()
    change_tags(run, [f"tag-{number}" for number in range(MOST_TAGS)])
    with pytest.raises(Invalid) as refused:
        change_tags(run, ["one-more"], ["absent"])
    assert "add_tags" in refused.value.fields
    assert len(tags(run)) == MOST_TAGS
    change_tags(run, ["one-more"], ["tag-0"])
    assert len(tags(run)) == MOST_TAGS


def test_a_tag_cannot_be_both_added_and_removed() -> None:
    with pytest.raises(Invalid):
        change_tags(make_run(), ["a", "b"], ["B"])


@pytest.mark.django_db(transaction=True)
def test_concurrent_changes_of_tags_are_all_kept() -> None:
    run = make_run()
    change_tags(run, ["old"])
    start = threading.Barrier(2)

    def edit(add: list[str], remove: list[str]) -> None:
        start.wait()
        try:
            for name in add:
                change_tags(run, [name], remove)
        finally:
            connection.close()

    mine, yours = [f"mine-{n}" for n in range(5)], [f"yours-{n}" for n in range(5)]
    threads = [threading.Thread(target=edit, args=args) for args in ((mine, ["old"]), (yours, []))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tags(run) == sorted(mine + yours)


def test_a_run_is_never_both_pinned_and_archived() -> None:
    run = make_run()
    mark(run, {"pinned": True})
    assert marks(run) == (True, False)
    mark(run, {"archived": True})
    assert marks(run) == (False, True)
    with pytest.raises(Conflict, match="archived"):
        mark(run, {"pinned": True})
    mark(run, {"archived": False, "pinned": True})
    assert marks(run) == (True, False)
    mark(run, {"pinned": False})
    assert marks(run) == (False, False)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"pinned": "yes"}, "pinned"),
        ({"archived": None}, "archived"),
        ({"pinned": True, "archived": True}, "archived"),
        ({"tags": ["a"]}, "tags"),
        ({"add_tags": "<b>", "pinned": True}, "add_tags"),
        ({"remove_tags": 3, "pinned": True}, "remove_tags"),
    ],
)
def test_an_invalid_mark_changes_nothing(data: dict[str, Any], field: str) -> None:
    run = make_run()
    with pytest.raises(Invalid) as refused:
        mark(run, data)
    assert list(refused.value.fields) == [field]
    assert (tags(run), marks(run)) == ([], (False, False))


def test_all_marks_are_changed_or_none() -> None:
    run = make_run(archived=True)
    with pytest.raises(Conflict):
        mark(run, {"add_tags": ["a"], "pinned": True})
    assert tags(run) == []


def test_the_number_of_pinned_runs_is_limited() -> None:
    runs = [make_run() for _ in range(MOST_PINNED + 1)]
    outcome = act(None, "pin", [run.pk for run in runs])
    assert outcome["done"] == [run.pk for run in runs[:-1]]
    assert "unpin one" in outcome["refused"][runs[-1].pk]
    curation.pin(runs[0])


@pytest.mark.parametrize("status", ["queued", "running", "stopping"])
def test_a_live_run_cannot_be_deleted(status: str) -> None:
    run = make_run(status=status)
    with pytest.raises(Conflict, match=f"The run is {status}: stop it"):
        curation.delete(run)
    assert Run.objects.filter(pk=run.pk).exists()


@pytest.mark.parametrize("status", ["queued", "running", "cancelling"])
def test_a_run_that_is_being_compiled_cannot_be_deleted(status: str) -> None:
    compilation = make_compilation(status=status)
    with pytest.raises(Conflict, match="cancel that"):
        curation.delete(compilation.run)
    compilation.move(status, to="cancelled")
    curation.delete(compilation.run)


def test_a_deleted_run_comes_back_as_it_was() -> None:
    run = make_run(status="finished", pinned=True)
    change_tags(run, ["good"])
    curation.delete(run)
    assert not Run.objects.exists()
    curation.restore(run)
    assert (tags(run), marks(run)) == (["good"], (True, False))
    with pytest.raises(Conflict):
        curation.restore(run)


def test_a_deleted_run_cannot_be_changed() -> None:
    run = make_run(status="finished")
    curation.delete(run)
    for change in (curation.delete, lambda run: change_tags(run, ["a"]), curation.pin):
        with pytest.raises(Conflict):
            change(run)
    assert act(None, "archive", [run.pk])["refused"].keys() == {run.pk}


def test_a_run_that_is_being_purged_cannot_be_restored() -> None:
    run = make_run(status="finished", deleted_at=timezone.now(), purging=True)
    with pytest.raises(Conflict):
        curation.restore(run)


@pytest.mark.parametrize("runs", ["", [], [True], ["1x"], None, 7, list(range(1, 502)), [-1], [2**63]])
def test_it_refuses_invalid_run_numbers(runs: Any) -> None:
    with pytest.raises(Invalid) as refused:
        act(None, "pin", runs)
    assert list(refused.value.fields) == ["runs"]


@pytest.mark.parametrize("action", [None, 3, "explode", ["pin"]])
def test_it_refuses_unknown_actions(action: Any) -> None:
    with pytest.raises(Invalid) as refused:
        act(None, action, [1])
    assert list(refused.value.fields) == ["action"]


def test_it_stops_live_runs() -> None:
    waiting, live, ended = make_run(), claimed(make_run()), make_run(status="finished")
    outcome = act(None, "stop", f"{waiting.pk}, {live.pk} {ended.pk}")
    assert outcome["done"] == [waiting.pk, live.pk]
    assert list(Run.objects.order_by("pk").values_list("status", flat=True)) == ["stopped", "stopping", "finished"]
