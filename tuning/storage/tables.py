"""The tables of stored files: their names, their content in chunks, and objects that no chunk needs.

Times are the database's (`Now`), since the clocks of machines may be wrong.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class StoredFile(models.Model):
    """A file that every machine of the site can read."""

    name = models.CharField(max_length=255, primary_key=True)
    """Its path below TUNEBOARD_VAR."""
    size = models.PositiveBigIntegerField(default=0)
    """In bytes. Whoever appends changes it on the condition that it is where they begin."""
    loose = models.PositiveIntegerField(default=0)
    """How many of its chunks aren't settled."""
    changed_at = models.DateTimeField()

    class Meta:
        indexes = (models.Index(fields=("changed_at",), condition=Q(loose__gt=0), name="stored_file_loose"),)

    def __str__(self) -> str:
        return self.name


class Chunk(models.Model):
    """A piece of a file. Its chunks follow each other without a gap, and none of them changes."""

    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="chunks", db_index=False)
    start = models.PositiveBigIntegerField()
    stop = models.PositiveBigIntegerField()
    digest = models.BinaryField(max_length=16)
    """BLAKE2 of the piece."""
    settled = models.BooleanField(default=True)
    """What was appended bit by bit is later joined to larger chunks; these are settled."""
    packed = models.PositiveIntegerField()
    """Bytes of the piece when compressed by Zstandard."""
    data = models.BinaryField(default=b"")
    """The compressed piece; empty if it is in an object store."""
    url = models.CharField(max_length=1200, default="")
    """Where it is there: `s3://BUCKET/KEY`."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("file", "stop"), name="chunk_once_a_file"),)
        indexes = (models.Index(fields=("file",), condition=~Q(url=""), name="chunk_elsewhere"),)

    def __str__(self) -> str:
        return f"{self.file_id}, bytes {self.start} to {self.stop}"


class LooseObject(models.Model):
    """An object that no chunk names: not yet, or not any more. After a while the sweep deletes it."""

    url = models.CharField(max_length=1200, primary_key=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return self.url
