"""What assembly, and what assemblers say of it, tells without being run."""

from .hot_loop import hot_loop
from .occupancy import occupancy
from .ptxas import Needs, needs

__all__ = ("Needs", "hot_loop", "needs", "occupancy")
