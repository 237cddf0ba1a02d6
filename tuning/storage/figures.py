"""How much is stored, for the System page."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import Count, Q, Sum

from .shared import SharedStore
from .store import store
from .tables import Chunk, StoredFile


class Stored(NamedTuple):
    """Files that all machines read. Sizes are in bytes: of the files, as compressed in the database, and in an object store."""

    place: str
    files: int
    size: int
    in_database: int
    in_objects: int


def stored() -> Stored | None:
    """What there is; None while the site keeps its files in TUNEBOARD_VAR and none anywhere else."""
    found = store()
    files = StoredFile.objects.aggregate(count=Count("pk"), size=Sum("size"))
    if not isinstance(found, SharedStore) and not files["count"]:
        return None
    held = Chunk.objects.aggregate(here=Sum("packed", filter=Q(url="")), there=Sum("packed", filter=~Q(url="")))
    place = (found.place or "the database") if isinstance(found, SharedStore) else "TUNEBOARD_VAR"
    return Stored(place, files["count"], files["size"] or 0, held["here"] or 0, held["there"] or 0)
