"""Heartbeats of rows on a `LiveSite` that no job works on, so that its sweep doesn't end them."""

from __future__ import annotations

import os
import time

import psutil
from django.db import connection

from tuning.models.lifecycle import Leased

RENEW_S = 5


def keep_alive(row: Leased) -> None:
    """Renew the row's lease until it ends, in a process of its own. Called in a command of `LiveSite.manage`."""
    command_server = os.getppid()
    connection.close()  # The two processes can't share it.
    if os.fork():
        return
    while psutil.pid_exists(command_server) and row.renew():
        connection.close()
        time.sleep(RENEW_S)
    os._exit(0)
