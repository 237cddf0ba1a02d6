"""Runs that are measured elsewhere while the site looks on: what it has got of them, and from where."""

from .streams import Stream, StreamDict, StreamSession
from .watches import Watch

__all__ = ("Stream", "StreamDict", "StreamSession", "Watch")
