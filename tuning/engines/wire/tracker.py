"""Speaks with a TVM RPC tracker: which devices it has, and, for the engine, the next one that is free.

Without TVM, whose own client (`tvm.rpc.TrackerSession`) would bring it into the web process. The protocol is
`tvm/rpc/tracker.py`'s: after a greeting each side sends JSON behind its length, four bytes, little-endian.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import Counter
from typing import Any, Literal

import msgspec
from typing_extensions import Self

MAGIC = 0x2F271
MAX_MESSAGE = 1 << 20
"""Bytes; TVM's tracker sends no longer ones."""
_SUCCESS, _REQUEST, _SUMMARY = 0, 4, 6
_PRIORITY = 1
"""TVM's default: devices are given out in the order in which they are asked for."""


class TrackerTrouble(Exception):
    """The tracker doesn't answer, or not as one; the text says which, in plain words."""


class Address(msgspec.Struct, frozen=True):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Queue(msgspec.Struct, frozen=True):
    """One key's devices and who waits for them, as TVM's `query_rpc_tracker` prints them."""

    key: str
    total: int
    free: int
    pending: int
    """Requests that wait for a device."""


class Server(msgspec.Struct, frozen=True, array_like=True):
    """A device as the tracker hands it out; `match_key` opens one session with it."""

    host: str
    port: int
    match_key: str


class Summary(msgspec.Struct, frozen=True):
    """All that a tracker knows of its devices."""

    queues: list[Queue]
    servers: list[tuple[str, Address]]
    """Key and address of each device."""

    def total(self, key: str) -> int:
        """Devices of the key, free or in use."""
        return sum(1 for known, _ in self.servers if known == key)


class _QueueInfo(msgspec.Struct):
    free: int
    pending: int


class _ServerInfo(msgspec.Struct):
    key: str
    addr: tuple[str, int]


class _Status(msgspec.Struct):
    queue_info: dict[str, _QueueInfo]
    server_info: list[_ServerInfo]


class Tracker:
    """An open connection; a context manager. Raises `TrackerTrouble`, as do its methods."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        try:
            self._socket = socket.create_connection((address.host, address.port), timeout_s)
        except OSError as error:
            raise self._trouble(error) from error
        try:
            self._greet()
        except TrackerTrouble:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def summary(self) -> Summary:
        """Its devices as they are now."""
        self._send([_SUMMARY])
        status = self._answer(tuple[Literal[0], _Status])[1]
        servers = [(info.key.partition(":")[2], Address(*info.addr)) for info in status.server_info]
        total = Counter(key for key, _ in servers)
        # A device says that it is there a moment before it offers itself.
        info = {key: _QueueInfo(0, 0) for key in total} | status.queue_info
        queues = [Queue(key, total[key], info[key].free, info[key].pending) for key in sorted(info)]
        queues = [queue for queue in queues if queue.total or queue.free or queue.pending]
        return Summary(queues, servers)

    def request(self, key: str) -> Server:
        """The next free device of the key, once there is one."""
        self._send([_REQUEST, key, "", _PRIORITY])
        select.select([self._socket], [], [])  # Without the limit that answers have: others may use it for hours.
        server: Server = self._answer(tuple[Literal[0], Server])[1]
        return server

    def _greet(self) -> None:
        try:
            self._socket.sendall(struct.pack("<i", MAGIC))
        except OSError as error:
            raise self._trouble(error) from error
        if self._received(4) != struct.pack("<i", MAGIC):
            raise TrackerTrouble(f"What answers at {self.address} is no TVM RPC tracker.")

    def _send(self, message: list[Any]) -> None:
        data = msgspec.json.encode(message)
        try:
            self._socket.sendall(struct.pack("<i", len(data)) + data)
        except OSError as error:
            raise self._trouble(error) from error

    def _answer(self, shape: Any) -> Any:
        (size,) = struct.unpack("<i", self._received(4))
        if not 0 < size <= MAX_MESSAGE:
            raise TrackerTrouble(f"The tracker at {self.address} sent a message of {size} bytes.")
        try:
            return msgspec.json.decode(self._received(size), type=shape)
        except msgspec.MsgspecError as error:
            raise TrackerTrouble(f"The tracker at {self.address} sent what isn't of its protocol: {error}.") from error

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                chunk = self._socket.recv(size - len(data))
            except OSError as error:
                raise self._trouble(error) from error
            if not chunk:
                raise TrackerTrouble(f"What answers at {self.address} closed the connection.")
            data += chunk
        return data

    def _trouble(self, error: OSError) -> TrackerTrouble:
        why = f"no answer within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else error.strerror or error
        return TrackerTrouble(f"The tracker at {self.address} can't be reached: {why}.")


def summary(address: Address, timeout_s: float = 2.0) -> Summary:
    """The devices of a tracker, as they are now. Raises `TrackerTrouble`."""
    with Tracker(address, timeout_s) as tracker:
        return tracker.summary()
