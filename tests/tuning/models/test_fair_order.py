"""Whose turn is next where several people wait, what comes before each run, and what it waits for, in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.world import claimed, make_machine, make_run, make_user
from tuning.models import LOST, Machine, Needs, Run, Served, Waiting, in_fair_order

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def at(second: int) -> datetime:
    return NOW + timedelta(seconds=second)


def queued(second: int, owner: User | None = None, **values: object) -> Run:
    return make_run(queued_at=at(second), created_by=owner, **values)


def taken(machine: Machine, **values: object) -> Run:
    """A run that the machine is tuning."""
    run = make_run(**values)
    run.taker = machine
    return claimed(run)


def order(machine: Machine | None = None) -> list[int]:
    """The keys of queued runs in the order in which one machine would take them, each ending before the next begins."""
    found = []
    while (run := Run.objects.next_for("cpu", machine)) is not None:
        found.append(run.pk)
        Run.objects.filter(pk=run.pk).update(status="stopped", heartbeat_at=timezone.now())
    return found


def places() -> dict[int, tuple[int, str]]:
    return {key: (place.ahead, place.waits) for key, place in Run.objects.places().items()}


def lose(machine: Machine, minutes: int = 5) -> None:
    ago = LOST + timedelta(minutes=minutes)
    Machine.objects.filter(pk=machine.pk).update(heartbeat_at=timezone.now() - ago)


def test_fifty_runs_of_one_keep_anothers_first_waiting_for_one() -> None:
    ada, grace = make_user(name="ada"), make_user(name="grace")
    many = [queued(second, ada) for second in range(50)]
    hers = [queued(100 + second, grace) for second in range(3)]
    found = [key for key, _ in sorted(places().items(), key=lambda one: one[1][0])]
    assert found[:7] == [each.pk for each in (many[0], hers[0], many[1], hers[1], many[2], hers[2], many[3])]
    assert order() == found


def test_whoever_has_a_run_going_lets_others_go_first() -> None:
    ada, grace = make_user(name="ada"), make_user(name="grace")
    claimed(make_run(created_by=ada, device="cuda:0"))
    first, second = queued(1, ada), queued(2, grace)
    assert order() == [second.pk, first.pk]


def test_of_one_persons_runs_and_the_sites_own_the_oldest_is_first() -> None:
    keys = [queued(second).pk for second in (2, 1, 3)]
    assert order() == [keys[1], keys[0], keys[2]]


def test_a_higher_priority_goes_first() -> None:
    ada, grace = make_user(name="ada"), make_user(name="grace")
    low = queued(1, grace, priority=Run.Priority.LOW)
    normal = queued(2, ada)
    high = [queued(second, ada, priority=Run.Priority.HIGH) for second in (3, 4)]
    assert order() == [*(run.pk for run in high), normal.pk, low.pk]


def test_a_machine_takes_only_what_fits_it() -> None:
    big, small = make_machine("big", cores=16, features=["x86_64", "avx2", "avx512f"]), make_machine("small")
    wide = queued(1, needs=Needs.objects.of(["x86_64", "avx512f"], 8))
    many_cores = queued(2, needs=Needs.objects.of(["x86_64"], 4))
    any_will_do = queued(3, needs=Needs.objects.of(["x86_64"], 2))
    for_small = queued(4, chosen_machine=small)
    unknown = queued(5)
    queued(6, device="cuda:0")
    fit_big = set(Run.objects.waiting_for("cpu", big).values_list("pk", flat=True))
    assert fit_big == {run.pk for run in (wide, many_cores, any_will_do, unknown)}
    assert order(small) == [run.pk for run in (any_will_do, for_small, unknown)]


@pytest.mark.parametrize("seed", range(3))
def test_all_who_compete_for_a_machine_and_come_first_are_ahead(seed: int) -> None:
    random, people = Random(seed), [make_user(name=name) for name in ("ada", "grace", "mary")]
    machines = [make_machine(f"lab-{number}", cores=number) for number in range(1, 6)]
    needs = [Needs.objects.of(["x86_64"], cores) for cores in (1, 3, 5, 9)]
    for second in range(60):
        queued(
            second,
            random.choice(people),
            needs=random.choice(needs),
            chosen_machine=random.choice([None, None, *machines]),
            device=random.choice(["cpu", "cpu", "rpc:lab/pi"]),
        )
    waiting = in_fair_order(Run.objects.as_waiting(), Served({}, {}))
    by_key: dict[int | None, Needs] = {one.pk: one for one in needs}
    may = {
        one.pk: {
            each.pk for each in machines if one.chosen_machine in (None, each.pk) and by_key[one.needs].met_by(each)
        }
        for one in waiting
    }
    found = places()
    for place, one in enumerate(waiting):
        before = [other for other in waiting[:place] if other.device == one.device]
        if one.device == "cpu":
            before = [other for other in before if may[other.pk] & may[one.pk] or not (may[other.pk] | may[one.pk])]
        assert found[one.pk][0] == len(before)


def test_the_only_machine_takes_what_an_earlier_version_queued() -> None:
    machine = make_machine("alone", cores=0, features=[])
    run = queued(1, needs=Needs.objects.of(["x86_64", "avx512f"], 8))
    assert order(machine) == [run.pk]


def test_each_machine_has_a_run_of_its_own_on_a_device() -> None:
    one, two = make_machine("lab-1"), make_machine("lab-2")
    first, second, third = (queued(second) for second in range(3))
    first.taker = second.taker = one
    third.taker = two
    assert first.claim()
    assert not second.claim()
    assert third.claim()
    assert [run.machine for run in (first, third)] == [one, two]


def test_a_trackers_key_belongs_to_the_whole_site() -> None:
    first, second = (queued(second, device="rpc:lab/pi") for second in range(2))
    first.taker, second.taker = make_machine("lab-1"), make_machine("lab-2")
    assert first.claim()
    assert not second.claim()


def test_one_machine_needs_no_name() -> None:
    machine = make_machine("lab-1")
    taken(machine)
    runs = [queued(second) for second in range(2)]
    assert [places()[run.pk] for run in runs] == [(1, "1 run ahead on this device"), (2, "2 runs ahead on this device")]


def test_a_run_knows_how_many_come_before_it_where_it_may_go() -> None:
    one, two = make_machine("lab-1"), make_machine("lab-2")
    taken(one)
    any_will_do, for_two, for_one = queued(1), queued(2, chosen_machine=two), queued(3, chosen_machine=one)
    assert places() == {
        any_will_do.pk: (1, "1 run ahead on 2 machines"),
        for_two.pk: (1, "1 run ahead on lab-2"),
        for_one.pk: (2, "2 runs ahead on lab-1"),
    }


def test_a_run_says_what_it_waits_for() -> None:
    gone, drained, misfit = make_machine("lab-1"), make_machine("lab-2", draining_at=NOW), make_machine("lab-3")
    Machine.objects.filter(pk=misfit.pk).update(trouble="It has tuneboard 0.1, and the site has 0.2.")
    lose(gone)
    for_gone, for_drained, for_misfit = (queued(1, chosen_machine=one) for one in (gone, drained, misfit))
    said = {key: words for key, (_, words) in places().items()}
    assert said[for_gone.pk].startswith("waits until lab-1 is back: it was lost 5\u00a0min")
    assert said[for_drained.pk] == "waits until lab-2 takes work again: it is being drained"
    assert said[for_misfit.pk] == "waits until lab-3 fits the site: It has tuneboard 0.1, and the site has 0.2."
    Machine.objects.filter(pk=misfit.pk).update(trouble="Its disk is full.", load={"disk_free": 0})
    assert places()[for_misfit.pk][1] == "waits until lab-3 has space again: Its disk is full."
    run = Run.objects.get(pk=for_drained.pk)
    assert run.to_dict(tasks=[])["words"]["phase"] == f"queued: {said[run.pk]}"


def test_a_run_says_that_nobody_can_take_it() -> None:
    make_machine("lab-1")
    make_machine("lab-2", cpu="", cores=0, features=[])
    run = queued(1, needs=Needs.objects.of(["aarch64", "sve"], 64))
    assert places()[run.pk][1] == (
        "no machine that joined can run its target: there are lab-1 (znver4, 2 cores), lab-2 (CPU not known yet)"
    )


def test_ten_thousand_queued_runs_take_few_queries() -> None:
    make_machine("lab-1")
    make_machine("lab-2")
    template = make_run()
    rows = [
        Run(
            name="x", project_id=template.project_id, network_id=template.network_id, target={}, target_fingerprint="",
            device="cpu", trials_budget=1, queued_at=at(number), priority=number % 2,
        )
        for number in range(300)
    ]  # fmt: skip
    Run.objects.bulk_create(rows)
    with CaptureQueriesContext(connection) as queries:
        assert len(Run.objects.places()) == 301
    assert len(queries) <= 7
    with CaptureQueriesContext(connection) as queries:
        assert Run.objects.next_for("cpu", Machine.objects.first()) is not None
    assert len(queries) <= 7


def test_the_order_needs_no_database() -> None:
    rows = [Waiting(key, 0, 1 + key % 2, at(0), "cpu", None, None) for key in range(4)]
    assert [row.pk for row in in_fair_order(rows, Served({}, {}))] == [0, 1, 2, 3]
    assert [row.pk for row in in_fair_order(rows, Served({}, {1: NOW}))] == [1, 0, 3, 2]
    assert [row.pk for row in in_fair_order(rows, Served({1: 2}, {}))] == [1, 3, 0, 2]
