"""`manage.py webhook_test` reports for each address whether it accepted the message."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.live import free_port
from tests.receiver import receiving
from tuning.models import Delivery

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_posts_a_test_and_reports_the_outcome(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with receiving() as receiver:
        settings.WEBHOOKS = [receiver.url]
        call_command("webhook_test")
    (message,) = receiver.messages
    assert message["type"] == "test"
    assert "reaches this address" in message["text"]
    assert capsys.readouterr().out == f"{receiver.url}: 204 No Content (not signed)\n"
    assert Delivery.objects.get().status == "sent"


def test_it_fails_if_an_address_doesnt_accept_it(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with receiving() as receiver:
        receiver.status = 404
        settings.WEBHOOKS = [receiver.url, f"http://127.0.0.1:{free_port()}/"]
        with pytest.raises(CommandError, match="2 of 2"):
            call_command("webhook_test")
    said = capsys.readouterr().out
    assert "It answered 404 Not Found" in said
    assert "can't be reached" in said
    assert set(Delivery.objects.values_list("status", flat=True)) == {"failed"}, "a test by hand isn't retried"


def test_it_fails_without_an_address() -> None:
    with pytest.raises(CommandError, match="TUNEBOARD_WEBHOOKS"):
        call_command("webhook_test")
