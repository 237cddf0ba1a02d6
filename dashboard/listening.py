"""uvicorn's HTTP protocol with limits on what it reads before a request begins, and on how slowly: its own has none.

Without them, anybody who reaches the port could hold connections open by a byte now and then, or fill the memory with headers.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024
"""Most bytes of a request's first line and headers."""
HEADERS = 100
"""Most headers of a request."""
HEAD_S = 15.0
"""Within which they must have arrived, from the connection or the first byte on."""
BODY_S = 30.0
"""How long a body may take besides its share of time by size."""
BODY_BYTES_A_SECOND = 2048
"""The slowest that a body may arrive."""
TICK_S = 1.0
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class PatientProtocol(HttpToolsProtocol):
    """A connection. The clocks run only while it is the client's turn."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None
        self._body: asyncio.TimerHandle | None = None
        self._head_bytes = self._body_bytes = 0
        self._waited_s = 0.0
        self._reads_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clocks()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what isn't a whole header yet, too: the parser keeps it."""
        if self._reads_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._reads_head and self._head_bytes > HEAD_BYTES:
            self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reads_head = True
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Begin the request, unless its head is too large."""
        self._stop_clocks()
        self._reads_head, self._head_bytes = False, 0
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEAD_BYTES or len(self.headers) > HEADERS:
            self._refuse(TOO_LARGE)
            raise ValueError("The head is too large.")  # The parser stops.
        super().on_headers_complete()
        self._body_bytes, self._waited_s = 0, 0.0
        self._body = self.loop.call_later(TICK_S, self._watch_body)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_clocks()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say that the request is malformed, unless it was refused for another reason."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def _expect_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_S, self._refuse, TOO_SLOW)

    def _watch_body(self) -> None:
        """Time counts only while data is read: an upload that waits for its turn isn't slow."""
        self._body = self.loop.call_later(TICK_S, self._watch_body)
        if self.flow.read_paused:
            return
        self._waited_s += TICK_S
        if self._waited_s > BODY_S + self._body_bytes / BODY_BYTES_A_SECOND:
            self._stop_clocks()
            self.transport.close()

    def _refuse(self, answer: bytes) -> None:
        self._stop_clocks()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _stop_clocks(self) -> None:
        for clock in filter(None, (self._head, self._body)):
            clock.cancel()
        self._head = self._body = None
