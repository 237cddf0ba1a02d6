"""The machines of a site: which of them can run what, and whose turn is next there."""

from .machine import FULL, LOST, Machine, MachineQuerySet
from .needs import Needs
from .order import Kind, Served, Waiting, in_fair_order
from .places import NEXT, SHARED, Fleet, Place, all_described, described, is_shared, places
from .pool_member import MemberDict, PoolMember, shown
from .roofline import MachineRoofline

__all__ = (
    "FULL",
    "LOST",
    "NEXT",
    "SHARED",
    "Fleet",
    "Kind",
    "Machine",
    "MachineQuerySet",
    "MachineRoofline",
    "MemberDict",
    "Needs",
    "Place",
    "PoolMember",
    "Served",
    "Waiting",
    "all_described",
    "described",
    "in_fair_order",
    "is_shared",
    "places",
    "shown",
)
