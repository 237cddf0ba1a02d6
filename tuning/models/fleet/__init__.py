"""The machines of a site, and which of them can run what."""

from .machine import LOST, Machine, MachineQuerySet
from .needs import Needs

__all__ = ("LOST", "Machine", "MachineQuerySet", "Needs")
