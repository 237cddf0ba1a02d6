"""A WebSocket client of the ASGI application. That of `channels.testing` would bring Daphne and Twisted along."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from asgiref.testing import ApplicationCommunicator
from django.test import Client

from dashboard.asgi import application

TIMEOUT_S = 20


class Socket:
    """A socket as a browser opens it, with a client's cookies."""

    def __init__(
        self, client: Client | None, path: str, host: str = "testserver", origin: str | None = "http://testserver"
    ) -> None:
        headers = [(b"host", host.encode())]
        if origin is not None:
            headers.append((b"origin", origin.encode()))
        if client is not None:
            headers.append((b"cookie", client.cookies.output(header="", sep=";").strip().encode()))
        scope = {"type": "websocket", "scheme": "ws", "path": unquote(path), "query_string": b"", "headers": headers}
        self._application = ApplicationCommunicator(application, scope | {"subprotocols": []})

    async def connect(self) -> bool:
        """Whether the handshake succeeds."""
        await self._application.send_input({"type": "websocket.connect"})
        answer = await self._application.receive_output(TIMEOUT_S)
        return bool(answer["type"] == "websocket.accept")

    async def read(self) -> dict[str, Any]:
        """The next message, which must be JSON."""
        message = await self._application.receive_output(TIMEOUT_S)
        assert message["type"] == "websocket.send", message
        decoded: dict[str, Any] = json.loads(message["text"])
        return decoded

    async def write(self, **frame: str | bytes) -> None:
        """Send `text` or `bytes`."""
        await self._application.send_input({"type": "websocket.receive", **frame})

    async def closing_code(self) -> int:
        """The code with which the server closes, as its next message."""
        message = await self._application.receive_output(TIMEOUT_S)
        assert message["type"] == "websocket.close", message
        code: int = message["code"]
        # As the server does, for who closed without ending by itself.
        await self._application.send_input({"type": "websocket.disconnect", "code": code})
        await self._application.wait(TIMEOUT_S)
        return code

    async def close(self) -> None:
        """Close, and see the application end without an error."""
        await self._application.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._application.wait(TIMEOUT_S)
