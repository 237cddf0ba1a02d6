"""Joins what was appended bit by bit to larger chunks, and deletes objects that nothing needs. The sweep does both."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from . import chunks, objects
from .chunks import CHUNK_BYTES
from .shared import SETTLED_FROM, SharedStore
from .store import store
from .tables import Chunk, LooseObject, StoredFile

logger = logging.getLogger(__name__)
MANY = 64
"""Chunks that are joined while the file still grows."""
QUIET = timedelta(minutes=1)
"""A file to which nothing was appended for this long is settled as it is."""
NEEDLESS = timedelta(hours=6)
"""Loose objects are kept this long: an upload or a backup may be going on that knows them."""
AT_ONCE_S = 1.0
"""The most that one sweep begins in, since leases can't wait."""
PAUSE_S = 60.0
"""After the object store didn't answer, it is left alone for this long."""
_away_until = 0.0


def settle() -> None:
    """Go on with it, for a second at most. While the object store can't be reached, chunks stay in their rows."""
    global _away_until  # noqa: PLW0603 - of this process
    found = store()
    if not isinstance(found, SharedStore) or time.monotonic() < _away_until:
        return
    until = time.monotonic() + AT_ONCE_S
    try:
        for name in _due():
            if time.monotonic() > until:
                return
            settle_file(name, found.place)
        _delete_needless(until)
    except objects.Away as error:
        _away_until = time.monotonic() + PAUSE_S
        logger.warning("%s What tuning writes stays in the database until it answers.", error)
    except OSError as error:  # One file is damaged: the others come first, for a while.
        _away_until = time.monotonic() + PAUSE_S
        logger.error("A stored file can't be settled: %s", error)  # noqa: TRY400 - the sweep goes on


def settle_file(name: str, place: str) -> None:
    """Join the file's chunks that aren't settled. Raises `objects.Away`."""
    quiet = _is_quiet(name)
    for several in list(_neighbours(name)):
        settled = quiet or several[-1].stop - several[0].start >= SETTLED_FROM
        if len(several) == 1 and several[0].settled == settled and not place:
            continue
        _join(name, several, place if settled else "", settled=settled)


def _due() -> Iterator[str]:
    quiet = Q(loose__gt=0, changed_at__lt=Now() - QUIET)
    yield from StoredFile.objects.filter(quiet | Q(loose__gte=MANY)).values_list("pk", flat=True)


def _is_quiet(name: str) -> bool:
    return StoredFile.objects.filter(pk=name, changed_at__lt=Now() - QUIET).exists()


def _neighbours(name: str) -> Iterator[list[Chunk]]:
    """The chunks that aren't settled, those together that make one larger chunk. They come without their content."""
    rows = Chunk.objects.filter(file=name, settled=False).defer("data").order_by("stop")
    together: list[Chunk] = []
    for row in rows:
        if together and (together[-1].stop != row.start or row.stop - together[0].start > CHUNK_BYTES):
            yield together
            together = []
        together.append(row)
    if together:
        yield together


def _join(name: str, several: list[Chunk], place: str, *, settled: bool) -> None:
    """Replace the chunks, if nobody has done so meanwhile. An object exists before a row names it."""
    keys = [chunk.pk for chunk in several]
    rows = Chunk.objects.filter(pk__in=keys)
    content = chunks.joined(list(rows.order_by("stop")))
    if len(content) != several[-1].stop - several[0].start:
        return
    new = chunks.packed(several[0].start, content, place, settled=settled)
    new.file_id = name
    with transaction.atomic():
        file = StoredFile.objects.select_for_update().filter(pk=name).first()
        if file is None or rows.count() != len(keys):
            return
        chunks.dropped([chunk.url for chunk in several])
        rows.delete()
        new.save(force_insert=True)
        chunks.needed([new])
        file.loose = Chunk.objects.filter(file=name, settled=False).count()
        file.save(update_fields=("loose",))


def _delete_needless(until: float) -> None:
    for row in LooseObject.objects.filter(at__lt=Now() - NEEDLESS).order_by("at")[:MANY]:
        if time.monotonic() > until:
            return
        objects.delete(row.url)
        row.delete()
