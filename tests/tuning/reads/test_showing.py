"""Schedules of records, whatever happens to the process that applies them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tuning.engines.wire.errors import Refused
from tuning.engines.wire.showing import Question
from tuning.host import sandbox
from tuning.models import Record
from tuning.reads import showing
from tuning.reads.showing import Applying, Failed, Generated, Listing, Shown, generate, show

Answers = Callable[..., Iterator[Shown]]


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.VAR = tmp_path
    yield
    until(lambda: not showing._steps)
    showing._failures.clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every record can be applied; collects the records of each process."""
    seen: list[list[str]] = []

    def answer(question: Question, _hear: Any) -> Iterator[Shown]:
        seen.append(question.records)
        yield from map(made, question.records)

    play(monkeypatch, answer)
    return seen


def play(monkeypatch: pytest.MonkeyPatch, answer: Answers) -> None:
    """Let processes answer like this."""
    monkeypatch.setattr(sandbox, "ask", lambda _module, question, _kind, hear: answer(question, hear))


def made(text: str) -> Shown:
    return Shown(f"code of {text}", [], "tensorir", packs=False)


def record(text: str) -> Record:
    return Record(trial=1, latency_s=1e-3, text=text)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ended(*records: Record) -> Shown | Failed:
    """The final state."""
    while isinstance(state := show(records), Applying):
        until(lambda: not showing._steps)
    return state


def test_code_is_made_anew_with_another_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    tools: list[str] = []
    monkeypatch.setattr(showing, "cuda_tools", lambda: tools)

    def answer(*_: Any) -> Iterator[Any]:
        yield Generated([], missing=[] if tools else ["Install nvcc."])

    play(monkeypatch, answer)
    for expected in (["Install nvcc."], []):
        assert isinstance(generate(record("one")), Applying)
        until(lambda: not showing._steps)
        assert generate(record("one")) == Generated([], missing=expected)
        tools.append("/usr/bin/nvcc")


def test_each_record_is_applied_once(asked: list[list[str]]) -> None:
    assert isinstance(show([record("one")]), Applying)
    assert ended(record("one")) == made("one")
    assert show([record("one")]) == made("one")
    assert asked == [["one"]]
    (file,) = showing.shown_dir().iterdir()
    assert file.suffix == ".json"


def test_the_other_records_are_applied_after_the_first(asked: list[list[str]]) -> None:
    ended(record("two"))
    three = [record("one"), record("two"), record("three")]
    assert ended(three[2], *three) == made("three")
    assert show([three[0]]) == made("one")
    assert asked == [["two"], ["three", "one"]]


def test_it_returns_at_once_with_the_current_step(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slowly(question: Question, hear: Callable[[str], bool]) -> Iterator[Shown]:
        assert hear("Applying the schedule")
        go_on.wait(60)
        yield from map(made, question.records)

    play(monkeypatch, slowly)
    show([record("slow")])
    until(lambda: show([record("slow")]) == Applying("Applying the schedule"))
    go_on.set()
    assert ended(record("slow")) == made("slow")


def test_the_number_of_processes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, at_it = threading.Event(), list[str]()

    def slowly(question: Question, _hear: Any) -> Iterator[Shown]:
        at_it.extend(question.records)
        go_on.wait(60)
        yield from map(made, question.records)

    play(monkeypatch, slowly)
    for name in ("one", "two", "three"):
        assert isinstance(show([record(name)]), Applying)
    until(lambda: len(at_it) == showing.AT_ONCE)
    (waiting,) = {"one", "two", "three"} - set(at_it)
    assert show([record(waiting)]) == Applying(showing.WAITING)
    go_on.set()
    assert [ended(record(name)) for name in ("one", "two", "three")] == [made("one"), made("two"), made("three")]


def test_a_failure_is_reported_once_and_then_tried_again(
    monkeypatch: pytest.MonkeyPatch, asked: list[list[str]]
) -> None:
    with monkeypatch.context() as patch:
        play(patch, lambda *_: refuse("TVM crashed."))
        assert ended(record("one")) == Failed("TVM crashed.")
    assert isinstance(show([record("one")]), Applying)
    assert ended(record("one")) == made("one")


def test_a_failure_belongs_to_the_record_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(question: Question, _hear: Any) -> Iterator[Shown]:
        yield made(question.records[0])
        refuse("It crashed.")

    play(monkeypatch, break_down)
    records = [record("good"), record("bad"), record("unlucky")]
    assert ended(*records) == made("good")
    assert show(records[1:]) == Failed("It crashed.")
    assert isinstance(show(records[2:]), Applying)


def test_an_unexpected_exception_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, lambda *_: 1 / 0)  # type: ignore[arg-type]
    state = ended(record("one"))
    assert isinstance(state, Failed)
    assert "ZeroDivisionError" in state.error


def test_a_full_disk_is_reported_and_leaves_no_file(monkeypatch: pytest.MonkeyPatch, asked: list[list[str]]) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        state = ended(record("one"))
    assert isinstance(state, Failed)
    assert "No space left" in state.error
    assert list(showing.shown_dir().iterdir()) == []


def test_a_broken_file_is_replaced(asked: list[list[str]]) -> None:
    ended(record("one"))
    (file,) = showing.shown_dir().iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert ended(record("one")) == made("one")
    assert asked == [["one"], ["one"]]


def test_another_tvm_applies_it_again(monkeypatch: pytest.MonkeyPatch, asked: list[list[str]]) -> None:
    ended(record("one"))
    monkeypatch.setattr(showing, "installed", lambda _: "0.99")
    ended(record("one"))
    assert asked == [["one"], ["one"]]


def test_the_least_recently_used_files_are_removed(monkeypatch: pytest.MonkeyPatch, asked: list[list[str]]) -> None:
    ended(record("one"))
    ended(record("two"))
    for nth, file in enumerate(sorted(showing.shown_dir().iterdir())):
        os.utime(file, (nth, nth))
    show([record("one")])
    (size,) = {file.stat().st_size for file in showing.shown_dir().iterdir()}
    monkeypatch.setattr(showing, "KEPT_BYTES", 2 * size)
    assert ended(record("six")) == made("six")
    assert isinstance(show([record("one")]), Shown)
    assert asked == [["one"], ["two"], ["six"]]
    assert len(list(showing.shown_dir().iterdir())) == 2


def test_what_is_made_of_a_record_is_kept_beside_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    made_of = {Shown: made("one"), Generated: Generated([Listing("tir", "lowered")])}
    asked: list[str] = []

    def answer(module: str, _question: Question, kind: Any, _hear: Any) -> Iterator[Any]:
        asked.append(module.rpartition(".")[2])
        yield made_of[kind]

    monkeypatch.setattr(sandbox, "ask", answer)
    assert ended(record("one")) == made("one")
    while isinstance(state := generate(record("one")), Applying):
        until(lambda: not showing._steps)
    assert state == made_of[Generated]
    assert show([record("one")]) == made("one")
    assert asked == ["showing", "generating"]


def refuse(reason: str) -> Iterator[Shown]:
    raise Refused(reason)


@pytest.mark.tvm
class TestInALimitedProcess:
    """With the real process."""

    def test_it_says_what_is_wrong_with_a_record(self) -> None:
        state = ended(record('["0.001"]'))
        assert isinstance(state, Failed)
        assert "It can't be used: it isn't as TVM writes it" in state.error

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("import os; os.abort()", "killed by SIGABRT"),
            ("import time; time.sleep(60)", "longer than the 1 s"),
            ("raise MemoryError", "MiB of memory"),
        ],
    )
    def test_it_survives_whatever_happens_to_the_process(
        self, settings: Any, instead_of_python: Callable[[str], None], code: str, words: str
    ) -> None:
        settings.INSPECT_S = 1
        instead_of_python(code)
        state = ended(record("one"))
        assert isinstance(state, Failed)
        assert words in state.error
