"""Places at once: for each user and in all, with a short queue and a clear refusal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any

import pytest

from tests.threads import until
from tuning.engines.wire.targets import TargetInfo
from tuning.host import admission, sandbox, targets
from tuning.host.admission import Admission, Limits
from tuning.validation import Busy, Invalid

ADA, BOB, CARL = 1, 2, 3


@pytest.fixture
def places() -> Admission:
    return Admission(lambda: Limits(of_one=2, in_all=3), "models being read")


def held(places: Admission, user: int | None, count: int, stack: ExitStack) -> None:
    for _ in range(count):
        stack.enter_context(places.ticket(user)).enter(0)


def test_a_user_has_only_some_of_the_places(places: Admission) -> None:
    with ExitStack() as stack:
        held(places, ADA, 2, stack)
        with places.ticket(ADA) as third, pytest.raises(Busy, match="You already have 2 models being read") as busy:
            third.enter(0)
        assert busy.value.own
        held(places, BOB, 1, stack)
        with places.ticket(CARL) as fourth, pytest.raises(Busy, match="The site already has 3 models") as busy:
            fourth.enter(0)
        assert not busy.value.own
    held(places, CARL, 2, ExitStack())


def test_the_queue_is_short(places: Admission) -> None:
    with ExitStack() as stack:
        held(places, ADA, 2, stack)
        for _ in range(2):
            assert stack.enter_context(places.ticket(ADA)).waits
        with pytest.raises(Busy):
            places.ticket(ADA)
    assert not places.ticket(ADA).waits, "all of it is given back"


def test_who_waits_gets_the_place_that_becomes_free(places: Admission) -> None:
    with ExitStack() as stack:
        held(places, ADA, 2, stack)
        with ThreadPoolExecutor(1) as pool, places.ticket(ADA) as waiting:
            done = pool.submit(waiting.enter, 30)
            assert not done.done()
            stack.close()
            done.result(30)
            assert waiting.entered
            assert not waiting.waits


def test_an_error_gives_the_place_back(places: Admission) -> None:
    def fail() -> None:
        with places.ticket(ADA) as ticket:
            ticket.enter(0)
            raise KeyError

    for _ in range(5):
        with pytest.raises(KeyError):
            fail()


def test_where_no_user_is_named_nothing_is_limited(places: Admission) -> None:
    held(places, None, 50, ExitStack())


def test_many_threads_never_hold_more_than_there_are(places: Admission) -> None:
    now, most, lock = 0, 0, threading.Lock()

    def work(user: int) -> None:
        nonlocal now, most
        try:
            with places.ticket(user) as ticket:
                ticket.enter(5)
                with lock:
                    now, most = now + 1, max(most, now + 1)
                with lock:
                    now -= 1
        except Busy:
            pass

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(work, [ADA, BOB, CARL] * 100))
    assert most <= 3
    assert not places._taken
    assert not places._waiting


class TestTargets:
    """The resolver's process stands for TVM: it is counted, and ends when it is told."""

    @pytest.fixture(autouse=True)
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
        targets._answers.clear()
        self.go_on, seen = threading.Event(), []

        def ask_once(_module: str, question: Any, *_: Any) -> Any:
            with admission.inspections.place(0.2):
                seen.append(question.target)
                assert self.go_on.wait(30)
                return TargetInfo({"kind": "llvm"}, "cpu", float16=True, warning=None)

        monkeypatch.setattr(sandbox, "ask_once", ask_once)
        yield seen
        targets._answers.clear()

    @staticmethod
    def resolving(pool: ThreadPoolExecutor, user: int, target: str) -> Future[Any]:
        admission.asking.set(user)
        return pool.submit(copy_context().run, targets.resolve, target)

    def test_equal_ones_start_one_process(self, asked: list[str], settings: Any) -> None:
        settings.INSPECTIONS_PER_USER = 4
        settings.INSPECTIONS = 8
        texts = ['{"kind": "llvm", "num-cores": 2}', ' {"num-cores":2,"kind":"llvm"}'] * 2
        with ThreadPoolExecutor(4) as pool:
            answers = [self.resolving(pool, ADA, text) for text in texts]
            until(lambda: bool(asked))
            self.go_on.set()
            assert {answer.result(30)["label"] for answer in answers} == {"llvm"}
        assert len(asked) == 1

    def test_different_ones_are_limited_for_each_user(self, asked: list[str], settings: Any) -> None:
        settings.INSPECTIONS_PER_USER = 1
        settings.INSPECTIONS = 2
        with ThreadPoolExecutor(4) as pool:
            first = self.resolving(pool, ADA, "a")
            until(lambda: len(asked) == 1)
            second = self.resolving(pool, ADA, "b")
            with pytest.raises(Busy, match="You already have 1"):
                second.result(30)
            other = self.resolving(pool, BOB, "c")
            until(lambda: len(asked) == 2)
            self.go_on.set()
            first.result(30)
            other.result(30)
        assert targets.resolve("b")["label"] == "llvm", "a refusal isn't kept"

    def test_a_failure_is_told_to_all_who_wait_and_not_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> Any:
            assert self.go_on.wait(30)
            raise sandbox.NoAnswer("crashed")

        monkeypatch.setattr(sandbox, "ask_once", fail)
        with ThreadPoolExecutor(2) as pool:
            both = [self.resolving(pool, user, "a") for user in (ADA, BOB)]
            self.go_on.set()
            for one in both:
                with pytest.raises(Invalid, match="crashed"):
                    one.result(30)
        assert not targets._answers
