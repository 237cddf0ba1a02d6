"""The web process of `manage.py up`: `python -m dashboard.serve FD`.

Its socket is bound and kept open by `up`: the port is reserved before anything starts, and connections wait instead of
failing while a crashed web process is restarted.
"""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
import threading

import uvicorn

from .listening import PatientProtocol


def main(fd: int) -> None:
    """Serve the site on a listening socket until SIGTERM."""
    config = uvicorn.Config(
        "dashboard.asgi:application",
        lifespan="off",
        http=PatientProtocol,
        ws="websockets-sansio",
        ws_max_size=64 * 1024,  # browsers send little
        # Deltas are short, and a compressor per watcher takes 0.3 MB and more time than everything else about sending.
        ws_per_message_deflate=False,
        log_config=None,  # Django configures logging
        access_log=False,  # would contain one-time login URLs
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
    )
    config.load()  # Sets up Django.
    from tuning.host import schema

    schema.require_ours()
    _settle()
    threading.Thread(target=_describe_this_machine, name="targets", daemon=True).start()
    # uvicorn's --fd treats every socket as a Unix socket, for which asyncio doesn't turn off Nagle's algorithm.
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=fd)])


def _settle() -> None:
    """Exclude what is loaded now from garbage collection, which would delay some requests by a tenth of a second."""
    from django.urls import get_resolver

    _ = get_resolver().url_patterns  # Loads all views.
    gc.collect()
    gc.freeze()


def _describe_this_machine() -> None:
    """Enter what this machine is, which TVM takes a second to tell, and have the answer at hand for the first launch."""
    from django.db import Error, connection

    from tuning.actions.machines.registering import describe

    with contextlib.suppress(Error):  # What is wrong is reported at launch, and the database's absence everywhere.
        describe()
    connection.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
