"""A site that can be away, slow or unwilling, and remembers what it was sent; the real one is asked elsewhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Site:
    """Keeps to docs/streaming.md: a trial is taken once, in order, and each answer says how far it has them."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, Any]] = {}
        self.begun: list[dict[str, Any]] = []
        self.sent = 0
        self.stop = False
        self.refusal: tuple[int, str] | None = None
        self.delay_s = 0.0
        self.loses_answers = 0
        """So many answers are computed and never sent."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def trials(self) -> list[dict[str, Any]]:
        return [trial for session in self.sessions.values() for trial in session["trials"]]

    @property
    def tasks(self) -> dict[str, dict[str, Any]]:
        return {key: task for session in self.sessions.values() for key, task in session["tasks"].items()}

    @property
    def ends(self) -> list[dict[str, Any]]:
        return [session["end"] for session in self.sessions.values() if session["end"]]

    def take(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        session = self.sessions.setdefault(body["session"], {"trials": [], "tasks": {}, "end": None})
        if path.endswith("/streams"):
            self.begun.append(body)
        elif path.endswith("/end"):
            session["end"] = {name: value for name, value in body.items() if name != "session"}
        else:
            session["tasks"].update((task["key"], task) for task in body["tasks"])
            for trial in body["trials"]:
                self.sent += 1
                assert trial["task"] in session["tasks"]
                if trial["number"] == len(session["trials"]) + 1:
                    session["trials"].append(trial)
        return {"run": 7, "have": len(session["trials"]), "stop": self.stop}


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.site.delay_s)
        status, answer = 200, {}
        if self.site.refusal:
            status, message = self.site.refusal
            answer = {"error": {"code": "x", "message": message}}
        else:
            answer = self.site.take(self.path, body)
            if self.site.loses_answers:
                self.site.loses_answers -= 1
                return
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """The site, on the port that it had before if it had one."""
    handler = type("Handler", (_Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", site.port), handler)
    server.daemon_threads = True
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
