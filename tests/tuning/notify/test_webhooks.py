"""Webhooks about runs and compilations that ended: sent by jobs that retry, and that no run waits for."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.engine_fixtures import Play
from tests.live import free_port
from tests.receiver import Receiver, receiving
from tests.world import claimed, extracted, make_compilation, make_run, make_user, measured_run, trial
from tuning.actions import compilations, runs, sweeping
from tuning.engines.wire.protocol import VERSION, Finished, Hello
from tuning.models import Compilation, Delivery, Run
from tuning.models.delivery import RETRIES
from tuning.notify import messages, webhooks
from tuning.queue import jobs
from tuning.queue.celery import WEBHOOK_QUEUE, app

pytestmark = pytest.mark.django_db(transaction=True)
HELLO = Hello(version=VERSION, engine="fake", pid=1, versions={})
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """A receiver whose address is in the settings."""
    with receiving() as server:
        settings.WEBHOOKS = [server.url]
        settings.SITE_URL = "https://tune.example"
        yield server


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The deliveries that were enqueued."""
    found: list[int] = []
    monkeypatch.setattr(jobs, "enqueue", lambda delivery: found.append(delivery.pk))
    return found


def only() -> Delivery:
    return Delivery.objects.get()


def due(delivery: Delivery) -> Delivery:
    """Make it due now."""
    Delivery.objects.filter(pk=delivery.pk).update(due_at=timezone.now() - timedelta(seconds=1))
    delivery.refresh_from_db()
    return delivery


def test_a_message_about_a_finished_run(receiver: Receiver, play: Play) -> None:
    play(HELLO, extracted(1), trial(0, 2e-3), Finished("budget"))
    run = make_run(name="first", trials_budget=1, created_by=make_user(name="ada"))
    jobs.tune(run.pk)
    assert receiver.got == [], "the run's own job sends nothing"
    jobs.deliver(only().pk)

    (message,) = receiver.messages
    run.refresh_from_db()
    assert run.finished_at
    assert message["type"] == "run.finished"
    assert message["text"] == (
        f"Run {run.pk} (first) has finished: 2 ms estimated, 1 of 1 trials, 0 failed. https://tune.example/runs/{run.pk}/"
    )
    expected = {
        "id": run.pk,
        "name": "first",
        "url": f"https://tune.example/runs/{run.pk}/",
        "status": "finished",
        "finish_reason": "budget",
        "error": None,
        "network": "mlp",
        "target": run.target,
        "trials_done": 1,
        "estimated_latency_s": 2e-3,
        "created_by": "ada",
        "finished_at": run.finished_at.isoformat(),
    }
    assert {name: message["data"][name] for name in expected} == expected
    delivery = only()
    assert (delivery.status, delivery.attempts, delivery.answer) == ("sent", 1, "204 No Content")


def test_a_name_neither_formats_nor_notifies_in_a_chat() -> None:
    run = make_run(name="<!channel> & @here [click](https://evil.example)")
    text = messages.about_run(run)["text"]
    assert "(&lt;!channel&gt; &amp; @\u200bhere [click]\u200b(https://evil.example))" in text
    assert messages.about_run(run)["name"] == run.name


def test_a_message_about_a_run_whose_engine_died(receiver: Receiver, play: Play) -> None:
    play(HELLO, {"do": "exit", "status": 3})
    jobs.tune(make_run().pk)
    jobs.deliver(only().pk)
    (message,) = receiver.messages
    assert message["type"] == "run.failed"
    assert message["data"]["error"].startswith("The engine ended with exit status 3")
    assert message["data"]["estimated_latency_s"] is None
    assert "no estimate" in message["text"]
    assert "exit status 3" in message["text"]


def test_a_message_about_a_queued_run_that_was_stopped(receiver: Receiver) -> None:
    runs.stop(make_run())
    assert only().kind == "run.stopped"


def test_a_message_about_a_run_whose_worker_died(
    receiver: Receiver, enqueued: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = claimed(make_run())
    monkeypatch.setattr("tuning.models.lifecycle.LEASE", timedelta(seconds=-5))
    assert sweeping.sweep() == 1
    run.refresh_from_db()
    assert (run.status, only().kind) == ("interrupted", "run.interrupted")
    assert enqueued == [only().pk]


def test_there_is_no_message_while_a_run_is_stopping(receiver: Receiver) -> None:
    runs.stop(claimed(make_run()))
    assert not Delivery.objects.exists()


def test_a_message_about_a_compilation(receiver: Receiver) -> None:
    compilation = make_compilation(status=Compilation.Status.QUEUED, stage="build", verified=None, finished_at=None)
    compilations.cancel(compilation)
    jobs.deliver(only().pk)
    (message,) = receiver.messages
    assert message["type"] == "compilation.cancelled"
    assert message["data"]["run"] == compilation.run_id
    assert message["data"]["url"] == f"https://tune.example/compilations/{compilation.pk}/"


def test_nothing_is_stored_without_an_address() -> None:
    runs.stop(make_run())
    assert not Delivery.objects.exists()


def test_there_is_no_message_if_the_run_didnt_end(receiver: Receiver) -> None:
    run = claimed(make_run())
    assert not run.end(Run.Status.QUEUED, to=Run.Status.STOPPED)
    assert not Delivery.objects.exists()


def test_a_run_ends_even_if_its_message_cant_be_written(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_run: Run) -> Any:
        raise KeyError("unforeseen")

    monkeypatch.setattr(messages, "about_run", fails)
    run = make_run()
    runs.stop(run)
    run.refresh_from_db()
    assert run.status == "stopped"
    assert "No webhook is sent" in caplog.text


def test_signatures_follow_standard_webhooks(settings: Any) -> None:
    """A test vector from the specification."""
    settings.WEBHOOK_SECRET = SECRET
    given = webhooks.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert given == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_program_in_the_docs_verifies_messages(receiver: Receiver, settings: Any, project_root: Path) -> None:
    settings.WEBHOOK_SECRET = SECRET.removeprefix("whsec_")
    runs.stop(make_run())
    jobs.deliver(only().pk)
    ((_, headers, body),) = receiver.got
    found = re.search(r"```python\n(.*?)```", (project_root / "docs/webhooks.md").read_text(), re.DOTALL)
    assert found
    program: dict[str, Any] = {}
    exec(found[1], program)
    assert program["is_ours"](settings.WEBHOOK_SECRET, headers, body)
    assert not program["is_ours"](settings.WEBHOOK_SECRET, headers, body + b" ")
    assert not program["is_ours"](settings.WEBHOOK_SECRET, headers | {"webhook-timestamp": "1"}, body)
    assert headers["webhook-id"] == only().key


def test_a_message_isnt_signed_without_a_secret(receiver: Receiver) -> None:
    runs.stop(make_run())
    jobs.deliver(only().pk)
    ((path, headers, _),) = receiver.got
    assert path == "/hooks/secret"
    assert headers["content-type"] == "application/json"
    assert "webhook-signature" not in headers


def test_it_retries_and_then_gives_up(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.status = 500
    runs.stop(make_run())
    for number, wait in enumerate(RETRIES, start=1):
        before = timezone.now()
        jobs.deliver(only().pk)
        delivery = only()
        assert (delivery.status, delivery.attempts) == ("waiting", number)
        assert delivery.due_at >= before + wait
        due(delivery)
    with caplog.at_level(logging.WARNING, logger="tuning.notify.webhooks"):
        jobs.deliver(only().pk)
    delivery = only()
    assert (delivery.status, delivery.attempts) == ("failed", len(RETRIES) + 1)
    assert delivery.answer == "It answered 500 Internal Server Error"
    assert "given up" in caplog.text
    assert "/hooks/secret" not in caplog.text
    keys = {headers["webhook-id"] for _, headers, _ in receiver.got}
    assert (len(receiver.got), len(keys)) == (len(RETRIES) + 1, 1)


def test_a_retry_can_succeed(receiver: Receiver) -> None:
    receiver.status = 503
    runs.stop(make_run())
    jobs.deliver(only().pk)
    receiver.status = 200
    jobs.deliver(due(only()).pk)
    assert (only().status, only().attempts, only().answer) == ("sent", 2, "200 OK")


def test_it_isnt_sent_before_it_is_due_nor_by_two_jobs_at_once(receiver: Receiver) -> None:
    runs.stop(make_run())
    assert only().claim()
    jobs.deliver(only().pk)
    assert receiver.got == []
    due(only())
    jobs.deliver(only().pk)
    assert len(receiver.got) == 1, "the job that claimed it first has died"


def test_a_job_that_ends_too_late_changes_nothing(receiver: Receiver) -> None:
    runs.stop(make_run())
    late = only()
    late.claim()
    jobs.deliver(due(only()).pk)
    late.failed("It can't be reached")
    assert only().status == "sent"


def test_an_address_where_nobody_listens(settings: Any) -> None:
    settings.WEBHOOKS = [f"http://127.0.0.1:{free_port()}/"]
    runs.stop(make_run())
    jobs.deliver(only().pk)
    assert only().status == "waiting"
    assert "can't be reached" in only().answer


def test_an_answer_that_never_ends_times_out(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "ANSWER_S", 0.4)
    receiver.trickles = True
    runs.stop(make_run())
    jobs.deliver(only().pk)
    assert only().status == "waiting"
    assert "imeout" in only().answer


def test_redirects_arent_followed(receiver: Receiver) -> None:
    receiver.status = 302
    runs.stop(make_run())
    jobs.deliver(only().pk)
    assert [path for path, _, _ in receiver.got] == ["/hooks/secret"]
    assert only().answer == "It answered 302 Found"


def test_nothing_is_sent_to_an_address_that_was_removed(receiver: Receiver, settings: Any) -> None:
    runs.stop(make_run())
    settings.WEBHOOKS = []
    jobs.deliver(only().pk)
    assert receiver.got == []
    assert only().status == "failed"
    assert "TUNEBOARD_WEBHOOKS" in only().answer


def test_the_sweep_enqueues_due_deliveries_and_deletes_old_ones(receiver: Receiver, enqueued: list[int]) -> None:
    for _ in range(3):
        runs.stop(make_run())
    first, second, third = Delivery.objects.order_by("pk")
    first.claim()
    first.succeeded("200 OK")
    Delivery.objects.filter(pk=second.pk).update(enqueued_at=timezone.now())
    sweeping.sweep()
    assert enqueued == [third.pk]
    Delivery.objects.update(created_at=timezone.now() - timedelta(days=31))
    sweeping.sweep()
    assert set(Delivery.objects.values_list("pk", flat=True)) == {second.pk, third.pk}, "waiting ones are kept"


def test_a_worker_sends_it(receiver: Receiver, database_env: dict[str, str], tmp_path: Path) -> None:
    measured = measured_run()
    measured.move("running", to="stopping")
    assert measured.end("stopping", to="stopped")
    jobs.enqueue(only())
    assert only().enqueued_at
    env = database_env | {"TUNEBOARD_WEBHOOKS": receiver.url, "TUNEBOARD_WEBHOOK_SECRET": SECRET}
    command = [sys.executable, "-m", "tuning.queue.worker", "webhooks", WEBHOOK_QUEUE]
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        for _ in range(600):
            if only().status == "sent":
                break
            time.sleep(0.05)
    finally:
        worker.terminate()
        worker.wait(30)
        app.control.purge()
    assert only().status == "sent", (tmp_path / "worker.log").read_text()
    (message,) = receiver.messages
    assert message["data"]["estimated_latency_s"] == measured.estimated_latency_s
    assert receiver.got[0][1]["webhook-signature"].startswith("v1,")
