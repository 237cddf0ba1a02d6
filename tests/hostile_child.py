"""A sandboxed process that does what an upload might try: `python -m tests.hostile_child`."""

from __future__ import annotations

import signal
import time

from tests import hostile_acts
from tuning.engines.oneshot import serving
from tuning.engines.wire.targets import Resolve, TargetInfo


def _answer(question: Resolve, pipe: serving.Pipe) -> None:
    done = hostile_acts.done()
    if question.target == "stay":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pipe.step("Staying")
        time.sleep(600)
    pipe.send(TargetInfo(dict.fromkeys(done), "cpu", float16=True, warning=None))


if __name__ == "__main__":
    serving.serve(Resolve, _answer, "It can't be done")
