"""The site's web process, with a session of an admin: `python -m tests.benchmarks.fleet.web`.

It writes a line with `Serving` as JSON, and serves until it is ended.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import django
import msgspec
from django.conf import settings

from tuning.engines.wire.lifeline import die_with


class Serving(msgspec.Struct, frozen=True):
    """Where it serves, and the value of the header `Cookie`."""

    port: int
    cookie: str


@contextmanager
def web() -> Iterator[tuple[Serving, int]]:
    """Run it for the settings of this process; gives its process id, too. Raises `Broken`."""
    from tests.benchmarks.engine.sides import Broken  # It needs Django's applications.

    ours = os.getpid()
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdout=subprocess.PIPE,
        cwd=settings.BASE_DIR,
        preexec_fn=lambda: die_with(ours),  # noqa: PLW1509 - there is one thread yet
    ) as process:
        assert process.stdout
        try:
            if not (line := process.stdout.readline()):
                raise Broken("The web process ended early.")
            yield msgspec.json.decode(line, type=Serving), process.pid
        finally:
            process.terminate()


def main() -> None:
    """Serve."""
    from django.test import Client

    from dashboard import serve
    from tests.world import make_user

    # What this machine is would be entered in place of a made-up one.
    serve._describe_this_machine = lambda: None
    client = Client()
    client.force_login(make_user("admin", "watcher"))
    bound = socket.create_server(("127.0.0.1", 0))
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    sys.stdout.write(msgspec.json.encode(Serving(bound.getsockname()[1], cookie)).decode() + "\n")
    sys.stdout.flush()
    serve.main(bound.detach())


if __name__ == "__main__":
    django.setup()
    main()
