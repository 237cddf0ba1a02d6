"""Send webhook messages on demand: a test, or one that was given up."""

from __future__ import annotations

from django.contrib.auth.models import User

from tuning.models import Delivery
from tuning.notify import webhooks
from tuning.queue import jobs
from tuning.validation import Conflict


def send_test(user: User) -> None:
    """Send a test to each address of the settings. Raises `Conflict` when there is none."""
    deliveries = webhooks.note_test(user.get_username())
    if not deliveries:
        raise Conflict("There is no address: name some in TUNEBOARD_WEBHOOKS.")
    for delivery in deliveries:
        jobs.enqueue_delivery(delivery)


def send_again(delivery: Delivery) -> None:
    """Send what was given up once more. Raises `Conflict`."""
    if not delivery.again():
        raise Conflict("It is being sent already.")
    jobs.enqueue_delivery(delivery)
