"""Edit name and notes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import claimed, make_run, make_tasks, make_user, trial
from tuning.actions.editing import NOTES_BYTES, Outdated, edit
from tuning.models import Run
from tuning.reads.run_list import RunFilter
from tuning.validation import Invalid
from tuning.work.recorder import Recorder

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Name and revision of announced runs."""
    runs: list[tuple[str, int]] = []
    monkeypatch.setattr("tuning.actions.editing.announce_status", lambda run: runs.append((run.name, run.revision)))
    return runs


def test_it_stores_name_and_notes_and_who_wrote_them(told: list[tuple[str, int]]) -> None:
    ada = make_user(name="ada")
    run = edit(make_run(), {"revision": 1, "name": " better ", "notes": "# Why\n"}, ada)
    stored = Run.objects.get(pk=run.pk)
    assert (stored.name, stored.notes, stored.revision, stored.edited_by) == ("better", "# Why\n", 2, ada)
    assert stored.edited_at is not None
    assert told == [("better", 2)]


def test_the_second_of_two_edits_gets_the_current_state(told: list[tuple[str, int]]) -> None:
    run = make_run()
    ada, bob = (make_user(name=name) for name in ("ada", "bob"))
    first, second = (Run.objects.get(pk=run.pk) for _ in range(2))
    edit(first, {"revision": 1, "notes": "ada's"}, ada)
    with pytest.raises(Outdated, match="ada has edited") as refused:
        edit(second, {"revision": 1, "notes": "bob's"}, bob)
    assert refused.value.run.written() | {"edited_at": None} == {
        "name": "mlp",
        "notes": "ada's",
        "revision": 2,
        "edited_by": "ada",
        "edited_at": None,
    }
    assert Run.objects.get(pk=run.pk).notes == "ada's"
    assert len(told) == 1
    assert edit(second, {"revision": 2, "notes": "both"}, bob).revision == 3


def test_the_same_edit_can_be_sent_twice(told: list[tuple[str, int]]) -> None:
    run = make_run()
    for _ in range(2):
        run = edit(Run.objects.get(pk=run.pk), {"revision": 1, "notes": "sent again, since the answer was lost"}, None)
    assert run.revision == 2
    assert len(told) == 1


def test_it_normalizes_line_ends() -> None:
    assert edit(make_run(), {"revision": 1, "notes": "a\r\nb\rc\n"}, None).notes == "a\nb\nc\n"


def test_it_accepts_empty_notes_and_notes_at_the_limit() -> None:
    run = edit(make_run(), {"revision": 1, "notes": "é" * (NOTES_BYTES // 2)}, None)
    assert edit(run, {"revision": 2, "notes": ""}, None).notes == ""


@pytest.mark.parametrize(
    ("data", "field", "says"),
    [
        ({"revision": 1, "notes": "é" * (NOTES_BYTES // 2) + "x"}, "notes", "65,536 bytes"),
        ({"revision": 1, "notes": "a\0b"}, "notes", "NUL"),
        ({"revision": 1, "notes": "\ud800"}, "notes", "surrogate"),
        ({"revision": 1, "notes": None}, "notes", "text"),
        ({"revision": 1, "notes": ["x"]}, "notes", "text"),
        ({"revision": 1, "name": ""}, "name", "one line"),
        ({"revision": 1, "name": "a\nb"}, "name", "one line"),
        ({"revision": 1, "name": "x" * 201}, "name", "200 characters"),
        ({"revision": 1, "name": 7}, "name", "one line"),
        ({"notes": "x"}, "revision", "revision that was edited"),
        ({"revision": "1", "notes": "x"}, "revision", "whole number"),
        ({"revision": True, "notes": "x"}, "revision", "whole number"),
        ({"revision": 1}, "notes", "new name"),
        ({"revision": 1, "note": "x"}, "note", "no such field"),
    ],
)
def test_it_names_what_is_wrong_and_stores_nothing(data: dict[str, Any], field: str, says: str) -> None:
    run = make_run()
    with pytest.raises(Invalid) as refused:
        edit(run, data, None)
    assert says in refused.value.fields[field]
    stored = Run.objects.get(pk=run.pk)
    assert (stored.name, stored.notes, stored.revision) == ("mlp", "", 1)


def test_it_names_all_errors_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        edit(make_run(), {"name": "", "notes": 7, "tag": "x"}, None)
    assert refused.value.fields.keys() == {"name", "notes", "tag", "revision"}


def test_the_search_finds_words_in_notes() -> None:
    run = edit(make_run(), {"revision": 1, "notes": "Slower than with NCHW"}, None)
    make_run()
    assert list(RunFilter(q="nchw mlp").runs(None)) == [run]


def test_later_deltas_have_the_new_name() -> None:
    run = claimed(make_run())
    make_tasks(run)
    recorder = Recorder(run)
    edit(Run.objects.get(pk=run.pk), {"revision": 1, "name": "renamed", "notes": "while it runs"}, None)
    shown = recorder.record([trial(0)])["run"]
    assert (shown["name"], shown["revision"]) == ("renamed", 2)
    assert "notes" not in shown, "64 KiB must not be in every delta"
    assert Run.objects.get(pk=run.pk).notes == "while it runs"
