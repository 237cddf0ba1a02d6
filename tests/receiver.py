"""An HTTP server on loopback that receives webhook messages."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(ThreadingHTTPServer):
    """Answers each message with `status`, or with an endless body if `trickles`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 204
        self.trickles = False
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        """Path, headers (names in lower case) and body of each message."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks/secret"

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.got]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        if self.server.trickles:
            return self._trickle()
        self.send_response(self.server.status)
        if 300 <= self.server.status < 400:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def do_GET(self) -> None:
        self.server.got.append((self.path, {}, b"{}"))
        self.send_error(500)

    def _trickle(self) -> None:
        try:
            while True:
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that serves until the block ends."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
