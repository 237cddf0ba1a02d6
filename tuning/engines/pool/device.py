"""What a measuring process measures with. No TVM here."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import NoReturn, Protocol, Union

from tuning.engines.wire.pools.messages import Probe, Probed
from tuning.engines.wire.protocol import Candidate, Measured

Inbox = queue.SimpleQueue[Union[Candidate, Probe]]
Send = Callable[[Union[Measured, Probed]], None]


class Device(Protocol):
    """A machine's, or a fake one."""

    @property
    def wants(self) -> int:
        """As `Ready` says it."""

    def serve(self, inbox: Inbox, send: Send, may_begin: threading.Event) -> NoReturn:
        """Answer whatever arrives, until the process ends. Each measurement waits until it may begin."""
