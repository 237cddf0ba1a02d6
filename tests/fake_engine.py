"""An engine that replays a script: `python -m tests.fake_engine --events-fd FD`, as a real one is started.

FAKE_ENGINE_SCRIPT names a file of JSON lines. A line with `type` is an event, sent as it is, except trials that the
run has already (`Start.trials_done`): these were sent by an earlier process. Others are deeds: {"do": "sleep",
"seconds": 1}, {"do": "print", "text": "…"}, {"do": "kill"}, {"do": "exit", "status": 3}, {"do": "raw", "text": "…"},
{"do": "wait"} for a control or the end of stdin, {"do": "ignore"} them and sleep.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuning.engines.protocol import Event, Finished, Start, Stop, decode_control, decode_event, encode


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events-fd", type=int, required=True)
    events = os.fdopen(parser.parse_args().events_fd, "wb", buffering=0)
    start = decode_control(sys.stdin.buffer.readline())
    assert isinstance(start, Start)
    skip = start.trials_done
    for line in Path(os.environ["FAKE_ENGINE_SCRIPT"]).read_text().splitlines():
        step = json.loads(line)
        if step.get("type") == "trial" and skip:
            skip -= 1
        elif "type" in step:
            events.write(encode(decode_event(line.encode())))
        else:
            deed(step, events)


def deed(step: dict[str, Any], events: Any) -> None:
    deeds: dict[str, Callable[[], Any]] = {
        "sleep": lambda: time.sleep(step["seconds"]),
        "print": lambda: os.write(1, step["text"].encode() + b"\n"),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "exit": lambda: sys.exit(step["status"]),
        "raw": lambda: events.write(step["text"].encode() + b"\n"),
        "wait": lambda: wait(events),
        "ignore": lambda: time.sleep(600),
    }
    deeds[step["do"]]()


def wait(events: Any) -> None:
    line = sys.stdin.buffer.readline()
    if line and isinstance(decode_control(line), Stop):
        events.write(encode(Finished("stopped")))
    sys.exit(0)


def script(*steps: Event | dict[str, Any]) -> str:
    """The text of a script."""
    return "".join(json.dumps(step) + "\n" if isinstance(step, dict) else encode(step).decode() for step in steps)


if __name__ == "__main__":
    main()
