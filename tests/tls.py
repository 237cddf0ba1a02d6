"""Servers behind TLS, with certificates of a test's own: the servers that tests bring along have none."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from typing_extensions import Self

HOST = "127.0.0.1"
SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
"""By which a client of PostgreSQL asks for TLS."""


class Authority:
    """A certificate authority; `ca` is the file by which it is known."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0)))

    def server(self) -> ssl.SSLContext:
        """Of a server at `HOST`."""
        key, file = ec.generate_private_key(ec.SECP256R1()), self._folder / "server.pem"
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
        known_as = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))])
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(private + self._signed(name, key, known_as))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        now = datetime.now(timezone.utc)
        made = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=1),
            not_valid_after=now + timedelta(days=1),
        ).add_extension(extension, critical=True)
        return made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


class Front:
    """A port of this machine that speaks TLS, in front of a server that doesn't: a Unix socket or another port."""

    def __init__(self, server: Path | int, context: ssl.SSLContext, *, is_postgresql: bool = False) -> None:
        self._server = server
        self._context = context
        self._is_postgresql = is_postgresql

    def __enter__(self) -> Self:
        self._listening = socket.create_server((HOST, 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, name="front", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # It was closed.
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), name="front", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if self._is_postgresql:
                assert client.recv(len(SSL_REQUEST), socket.MSG_WAITALL) == SSL_REQUEST
                client.sendall(b"S")
            with self._context.wrap_socket(client, server_side=True) as inside, self._connected() as server:
                _pass(inside, server)

    def _connected(self) -> socket.socket:
        if isinstance(self._server, int):
            return socket.create_connection((HOST, self._server))
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._server))
        return server


def _pass(inside: ssl.SSLSocket, server: socket.socket) -> None:
    """Pass on what either end says until one of them has ended."""
    while True:
        ready = [inside] if inside.pending() else select.select([inside, server], [], [])[0]
        for source, sink in ((inside, server), (server, inside)):
            if source in ready:
                if not (data := source.recv(1 << 16)):
                    return
                sink.sendall(data)
