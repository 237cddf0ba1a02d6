"""Imported by a fork server as it starts: one that couldn't be forked from its engine ends with it all the same."""

from __future__ import annotations

import os

from tuning.engines.wire.lifeline import become_fork_server, die_with

die_with(os.getppid())
become_fork_server()
