"""A TCP port in front of a server, as the network between a machine and that server, which can be cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar, Union

from typing_extensions import Self

T = TypeVar("T")
Server = Union[Path, int]
"""A Unix socket, or a port of this machine."""


class Cable:
    """Forwards connections to a port of this machine. While it is cut, nothing arrives, and nobody is told."""

    def __init__(self, server: Server) -> None:
        self._at = server
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cable", daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self.mend()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.set)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _close(self) -> None:
        self._server.close()
        passing = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        try:
            there, back = await self._connected()
        except OSError:
            writer.close()  # As a machine answers on whose port nobody listens.
            return
        await asyncio.gather(self._pass(reader, back), self._pass(there, writer))

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._at, int):
            return await asyncio.open_connection("127.0.0.1", self._at)
        return await asyncio.open_unix_connection(str(self._at))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self._whole.wait()
                sink.write(data)
                await sink.drain()
            # The end of a connection doesn't arrive either: the server holds its locks until it gives the client up.
            await self._whole.wait()
        except OSError:
            pass  # One end is gone, as on a real network.
        finally:
            sink.close()
