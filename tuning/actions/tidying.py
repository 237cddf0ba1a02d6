"""Where other apps hear of the sweep, to remove what they keep for a limited time only."""

from __future__ import annotations

from django.dispatch import Signal

swept = Signal()
"""Sent after each sweep, every few seconds. A receiver decides itself how often it does something."""
