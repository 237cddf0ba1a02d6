"""The web process of `manage.py up`: `python -m dashboard.serve FD`.

It serves a socket that `up` bound and keeps: the port is ours before anything starts, and while a crashed web
process is started again connections wait rather than fail.
"""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
import threading

import uvicorn


def main(fd: int) -> None:
    """Serves the site on a listening socket until SIGTERM."""
    config = uvicorn.Config(
        "dashboard.asgi:application",
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=64 * 1024,  # browsers have little to say
        # Deltas are short; a compressor for each watcher takes 0.3 MB and more time than all else that sending does.
        ws_per_message_deflate=False,
        log_config=None,  # Django's
        access_log=False,  # it would hold one-time login URLs
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
    )
    config.load()  # With it Django is set up.
    _settle()
    threading.Thread(target=_know_this_machine, name="targets", daemon=True).start()
    # uvicorn's own --fd takes any socket for a Unix one, and asyncio then leaves Nagle's delay on.
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=fd)])


def _settle() -> None:
    """What is loaded now stays: each full collection of garbage would look through it, for a tenth of a second in some request."""
    from django.urls import get_resolver

    _ = get_resolver().url_patterns  # Loads all pages.
    gc.collect()
    gc.freeze()


def _know_this_machine() -> None:
    """The first launch needn't wait a second for TVM to tell this machine's target."""
    from tuning.host import targets
    from tuning.validation import Invalid

    with contextlib.suppress(Invalid):  # Who launches is told.
        targets.resolve("this")


if __name__ == "__main__":
    main(int(sys.argv[1]))
