"""Streams: what scripts of one's own send while they tune."""

from __future__ import annotations

from django.db import models
from typing_extensions import TypedDict

from tuning.models.project import Project
from tuning.models.run import Run

from .kept import Kept


class StreamDict(TypedDict):
    """How far the site has a session, as it answers every message of it.

    `have` is the number of the session's last trial that is stored; go on with the next. `stop` says that somebody has stopped
    the run on its page: end the tuning, send what is left, then the end.
    """

    run: int
    status: str
    have: int
    stop: bool


class Stream(Kept):
    """Says which run continues when a script gives the same name again."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="stream")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    """What the script calls it."""
    tasks = models.JSONField(default=dict)
    """The index of each task, by the script's name for it."""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "key"), name="stream_once_a_project"),)

    def __str__(self) -> str:
        return self.key

    @property
    def tuned(self) -> Run:
        return self.run


class StreamSession(models.Model):
    """One process of a script. It numbers its trials from 1, so that none counts twice however often it is sent."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="sessions")
    key = models.CharField(max_length=64)
    began = models.FloatField()
    """Seconds since 1970 by the clock of the script's machine."""
    offset_s = models.FloatField()
    """Seconds that the run had been tuned when it began."""
    taken = models.PositiveIntegerField(default=0)
    """Its trials that are stored."""
    heard_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("stream", "key"), name="session_once_a_stream"),)

    def __str__(self) -> str:
        return self.key

    def at_s(self, moment: float | None) -> float | None:
        """Seconds of tuning at this moment of the script's clock."""
        return None if moment is None else self.offset_s + max(0.0, moment - self.began)
