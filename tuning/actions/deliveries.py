"""Send webhooks on demand: a test, or a message that was given up."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.auth.models import User

from tuning import audit
from tuning.models import Delivery
from tuning.notify import outbox, webhooks
from tuning.queue import jobs
from tuning.validation import Conflict


def send_test(user: User) -> None:
    """Have a test sent to each address in TUNEBOARD_WEBHOOKS. Raises `Conflict` when there is none."""
    with audit.act("webhook.test") as act:
        deliveries = outbox.store_test(user.get_username())
        if not deliveries:
            raise Conflict("There is no address: list some in TUNEBOARD_WEBHOOKS.")
        act.details["addresses"] = len(deliveries)
    for delivery in deliveries:
        jobs.enqueue(delivery)


def try_addresses(asked_by: str) -> Iterator[Delivery]:
    """Send a test to each address from this process, one attempt each, and give the deliveries with their outcomes."""
    with audit.act("webhook.test") as act:
        deliveries = outbox.store_test(asked_by)
        act.details["addresses"] = len(deliveries)
    for delivery in deliveries:
        delivery.claim()
        try:
            delivery.succeeded(webhooks.post(delivery))
        except webhooks.NotSent as error:
            delivery.give_up(str(error))
        yield delivery


def send_again(delivery: Delivery) -> None:
    """Send a message again that was given up. Raises `Conflict`."""
    # Without its address, which is a secret.
    with audit.act("webhook.send_again", audit.Thing("message", delivery.pk, delivery.kind)):
        if not delivery.again():
            raise Conflict("It is already being sent.")
    jobs.enqueue(delivery)
