"""A device that measures nothing: it sleeps and makes up an answer. It serves tests of scale, without TVM.

Only a `PoolStart` that asks for it gets one, every answer says that it is synthetic, and an engine refuses such
answers unless its run was started as synthetic.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from typing import NoReturn

from tuning.engines.wire.pools.messages import FakeDevice, Probe, Probed
from tuning.engines.wire.protocol import Candidate, Measured

from .device import Inbox, Send

FASTEST_S, SLOWEST_S = 1e-4, 1e-3
"""Range of the made-up latencies before noise. Equal modules have equal ones, on all machines."""


class Fake:
    """Answers one candidate after another."""

    def __init__(self, machine: str, settings: FakeDevice) -> None:
        self._machine = machine
        self._settings = settings
        self._random = random.Random(machine)  # noqa: S311  made up, and the same each time

    @property
    def wants(self) -> int:
        """See `Device`."""
        return self._settings.wants

    def serve(self, inbox: Inbox, send: Send, may_begin: threading.Event) -> NoReturn:
        """See `Device`."""
        while True:
            asked = inbox.get()
            may_begin.wait()
            if isinstance(asked, Probe):
                rounds = [self._latency_s(asked.candidate) for _ in range(asked.rounds)]
                send(Probed(id=asked.candidate.id, machine=self._machine, run_secs=rounds, synthetic=True))
                continue
            took_s = self._noisy(self._settings.takes_s)
            time.sleep(took_s)
            run_secs = [self._latency_s(asked)]
            send(
                Measured(id=asked.id, machine=self._machine, run_secs=run_secs, measure_s=took_s, synthetic=True),
            )

    def _latency_s(self, candidate: Candidate) -> float:
        digest = hashlib.blake2b(candidate.module, digest_size=8).digest()
        share = int.from_bytes(digest, "big") / 2**64
        return self._noisy(FASTEST_S + share * (SLOWEST_S - FASTEST_S))

    def _noisy(self, mean: float) -> float:
        return mean * max(0.01, self._random.gauss(1.0, self._settings.noise))
