"""Runs manage.py commands for a `LiveSite`: loads Django once, then forks a process for each command."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import IO, NoReturn

import django
from django.core.management import execute_from_command_line


def serve() -> None:
    """Reads a JSON list of arguments from each line of stdin; answers with the command's status and output."""
    django.setup()
    import tests.world  # noqa: F401 - most of the tests' commands need it

    for line in sys.stdin:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status = _status(json.loads(line), out, err)
            answer = {"status": status, "stdout": _text(out), "stderr": _text(err)}
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


def _status(args: Sequence[str], out: IO[bytes], err: IO[bytes]) -> int:
    child = os.fork()
    if child == 0:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        _run(args)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(args: Sequence[str]) -> NoReturn:
    status = 1
    try:
        execute_from_command_line(["manage.py", *args])
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 - the child must never go on as the server
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


if __name__ == "__main__":
    serve()
