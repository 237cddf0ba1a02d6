"""A chunk's bytes: compressed and checked, in its row or in an object store."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence

import zstandard
from django.db.models.functions import Now

from . import objects
from .tables import Chunk, LooseObject

CHUNK_BYTES = 4 << 20
"""The most bytes of a chunk, before compression."""
LEVEL = 3
"""Of Zstandard: a higher one would disturb measurements on this machine's CPU."""


class Damaged(OSError):
    """What is stored isn't what was written."""


def packed(start: int, piece: bytes, place: str = "", *, settled: bool = True) -> Chunk:
    """An unsaved chunk of this piece, which is in the row or, if there is a `place`, already in the object store. Raises `objects.Away`."""
    data = zstandard.ZstdCompressor(level=LEVEL).compress(piece)
    digest = digest_of(piece)
    chunk = Chunk(start=start, stop=start + len(piece), digest=digest, settled=settled, packed=len(data))
    if place:
        chunk.url = f"{place}/{digest.hex()}-{uuid.uuid4().hex[:12]}.zst"
        LooseObject.objects.create(url=chunk.url, at=Now())
        objects.put(chunk.url, data)
    else:
        chunk.data = data
    return chunk


def needed(chunks: Iterable[Chunk]) -> None:
    """Note that the objects of new chunks aren't loose any more. Call it in the transaction that saves the chunks."""
    if urls := [chunk.url for chunk in chunks if chunk.url]:
        LooseObject.objects.filter(url__in=urls).delete()


def dropped(urls: Iterable[str]) -> None:
    """Note that these objects aren't needed any more. Call it in the transaction that deletes their chunks."""
    LooseObject.objects.bulk_create([LooseObject(url=url, at=Now()) for url in urls if url], ignore_conflicts=True)


def piece_of(chunk: Chunk) -> bytes:
    """The chunk's bytes. Raises `Damaged`, `objects.Away`, or `FileNotFoundError` if its object is gone."""
    size = chunk.stop - chunk.start
    data = objects.get(chunk.url) if chunk.url else bytes(chunk.data)
    try:
        if zstandard.get_frame_parameters(data).content_size != size:  # It might unpack to anything.
            raise Damaged(f"{chunk} has another size than it should.")
        piece = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise Damaged(f"{chunk} can't be unpacked: {error}.") from error
    if digest_of(piece) != bytes(chunk.digest):
        raise Damaged(f"{chunk} isn't what was stored.")
    return piece


def joined(chunks: Sequence[Chunk]) -> bytes:
    """The bytes of chunks that follow each other."""
    return b"".join(map(piece_of, chunks))


def digest_of(piece: bytes) -> bytes:
    return hashlib.blake2b(piece, digest_size=16).digest()
