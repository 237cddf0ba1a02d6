"""A run on two machines with real TVM; both are this one."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from tests.world import make_machine
from tuning.actions import runs
from tuning.host import targets
from tuning.host.machine import identity
from tuning.models import PoolMember, Run
from tuning.queue import jobs
from tuning.work.pool import dispatcher
from tuning.work.supervisor import supervise
from tuning.work.warm_parent import ForkedEngine, WarmParent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.tvm]


@pytest.mark.usefixtures("warm_tvm")
def test_a_matmul_is_tuned_by_two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    forked: list[int] = []
    fork = WarmParent.fork

    def counted(parent: WarmParent, console: int, events: int, module: str = "") -> ForkedEngine | None:
        process = fork(parent, console, events, module)
        forked.extend([process.pid] if process and module == "tuning.engines.pool" else [])
        return process

    monkeypatch.setattr(WarmParent, "fork", counted)
    # They share this machine's cores, so they may well differ.
    monkeypatch.setattr("tuning.engines.wire.pools.equality.LIMIT", 1e9)
    monkeypatch.setattr(dispatcher, "PROBES", 2)
    this = targets.resolve("this")
    about = {"target": this["target"], "features": this["needs"], "cores": this["target"]["num-cores"]}
    here = make_machine("lab-1", key=identity.key(), **about)
    make_machine("lab-2", **about)
    order = {"network": "matmul", "network_options": {"n": 64}, "trials": 16, "trials_per_batch": 4, "seed": 1}
    run = runs.launch(order | {"min_repeat_ms": 5, "machines": 2}, None, enqueue=False)
    run.taker = here
    assert run.claim()
    workers = []

    def work(key: int) -> None:
        try:
            jobs.take_part.run(key)
        finally:
            connection.close()

    def invite(member: PoolMember) -> None:
        workers.append(threading.Thread(target=work, args=(member.pk,)))
        workers[-1].start()

    supervise(run, threading.Event(), invite)
    for worker in workers:
        worker.join(60)
    run = Run.objects.get(pk=run.pk)
    assert (run.status, run.trials_done, run.error) == ("finished", 16, None)
    assert len(forked) >= 2, "nobody has loaded TVM again"
    members = run.to_full_dict()["machines"]
    assert {member["machine"] for member in members} == {"lab-1", "lab-2"}
    assert sum(member["trials"] for member in members) == 16
    assert {member["reason"] for member in members} == {""}, "each has ended as it should"
    assert any(member["differs"] is not None for member in members), "they were compared"
    assert len(run.record_file.read_text().splitlines()) == 16
