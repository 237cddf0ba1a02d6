"""What can be chosen about how a run tunes, by engine; here what all engines share. No TVM."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

KEEP_BEST = 8
"""Records of each task that the database keeps; the run's whole record log stays in its work directory."""

TaskIndex = Annotated[int, Meta(ge=0, le=100_000)]
