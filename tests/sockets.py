"""A WebSocket client for the ASGI application; the one in `channels.testing` needs Daphne and Twisted."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from asgiref.testing import ApplicationCommunicator
from django.test import Client

from dashboard.asgi import application

TIMEOUT_S = 20


class Socket:
    """A WebSocket as a browser opens it, with the cookies of a test client."""

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
        """Returns whether the handshake succeeded."""
        await self._application.send_input({"type": "websocket.connect"})
        answer = await self._application.receive_output(TIMEOUT_S)
        return bool(answer["type"] == "websocket.accept")

    async def read(self) -> dict[str, Any]:
        """Returns the next message, which must be JSON."""
        message = await self._application.receive_output(TIMEOUT_S)
        assert message["type"] == "websocket.send", message
        decoded: dict[str, Any] = json.loads(message["text"])
        return decoded

    async def write(self, **frame: str | bytes) -> None:
        """Sends `text` or `bytes`."""
        await self._application.send_input({"type": "websocket.receive", **frame})

    async def closing_code(self) -> int:
        """Returns the code of the close message, which must be the server's next one."""
        message = await self._application.receive_output(TIMEOUT_S)
        assert message["type"] == "websocket.close", message
        code: int = message["code"]
        # An ASGI server tells the application even about a close that the application sent.
        await self._application.send_input({"type": "websocket.disconnect", "code": code})
        await self._application.wait(TIMEOUT_S)
        return code

    async def close(self) -> None:
        """Closes it and waits until the application has ended; raises its error."""
        await self._application.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._application.wait(TIMEOUT_S)
