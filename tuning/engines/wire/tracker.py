"""A client of TVM's RPC tracker: lists its devices and requests the next free one. No TVM here.

TVM's own client (`tvm.rpc.TrackerSession`) would load TVM in the web process. The protocol is that of
`tvm/rpc/tracker.py`: after a handshake, each message is JSON, preceded by its length as four bytes, little-endian.
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
"""Bytes. TVM's tracker sends no longer messages."""
_SUCCESS, _REQUEST, _SUMMARY = 0, 4, 6
_PRIORITY = 1
"""TVM's default. Requests of equal priority are served in order."""


class TrackerError(Exception):
    """The tracker doesn't answer, or answers with something else. The text is for the user."""


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Queue(msgspec.Struct, frozen=True):
    """The devices with one key and the requests for them, as TVM's `query_rpc_tracker` prints them."""

    key: str
    total: int
    free: int
    pending: int
    """Requests waiting for a device."""


class Server(msgspec.Struct, frozen=True, array_like=True):
    """A device that the tracker assigned; `match_key` is good for one session."""

    host: str
    port: int
    match_key: str


class Summary(msgspec.Struct, frozen=True):
    """Everything a tracker reports about its devices."""

    queues: list[Queue]
    servers: list[tuple[str, Address]]
    """Key and address of each device."""

    def total(self, key: str) -> int:
        """How many devices have the key, free or in use."""
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
    """An open connection, as a context manager. Its methods and constructor raise `TrackerError`."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        try:
            self._socket = socket.create_connection((address.host, address.port), timeout_s)
        except OSError as error:
            raise self._error(error) from error
        try:
            self._greet()
        except TrackerError:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def summary(self) -> Summary:
        self._send([_SUMMARY])
        status = self._answer(tuple[Literal[0], _Status])[1]
        servers = [(info.key.partition(":")[2], Address(*info.addr)) for info in status.server_info]
        total = Counter(key for key, _ in servers)
        # A device registers a moment before it offers itself.
        info = {key: _QueueInfo(0, 0) for key in total} | status.queue_info
        queues = [Queue(key, total[key], info[key].free, info[key].pending) for key in sorted(info)]
        queues = [queue for queue in queues if queue.total or queue.free or queue.pending]
        return Summary(queues, servers)

    def request(self, key: str) -> Server:
        """Wait for the next free device with the key."""
        self._send([_REQUEST, key, "", _PRIORITY])
        select.select([self._socket], [], [])  # Without a timeout: other users may keep the devices busy for hours.
        server: Server = self._answer(tuple[Literal[0], Server])[1]
        return server

    def _greet(self) -> None:
        try:
            self._socket.sendall(struct.pack("<i", MAGIC))
        except OSError as error:
            raise self._error(error) from error
        if self._received(4) != struct.pack("<i", MAGIC):
            raise TrackerError(f"The server at {self.address} is not a TVM RPC tracker.")

    def _send(self, message: list[Any]) -> None:
        data = msgspec.json.encode(message)
        try:
            self._socket.sendall(struct.pack("<i", len(data)) + data)
        except OSError as error:
            raise self._error(error) from error

    def _answer(self, shape: Any) -> Any:
        (size,) = struct.unpack("<i", self._received(4))
        if not 0 < size <= MAX_MESSAGE:
            raise TrackerError(f"The tracker at {self.address} sent a message of {size} bytes.")
        try:
            return msgspec.json.decode(self._received(size), type=shape)
        except msgspec.MsgspecError as error:
            raise TrackerError(f"The tracker at {self.address} sent an invalid message: {error}.") from error

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                chunk = self._socket.recv(size - len(data))
            except OSError as error:
                raise self._error(error) from error
            if not chunk:
                raise TrackerError(f"The server at {self.address} closed the connection.")
            data += chunk
        return data

    def _error(self, error: OSError) -> TrackerError:
        why = f"no answer within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else error.strerror or error
        return TrackerError(f"The tracker at {self.address} can't be reached: {why}.")


def summary(address: Address, timeout_s: float = 2.0) -> Summary:
    """The tracker's devices now. Raises `TrackerError`."""
    with Tracker(address, timeout_s) as tracker:
        return tracker.summary()
