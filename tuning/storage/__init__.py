"""Where the site's files are: in TUNEBOARD_VAR, or where each of its machines can read them."""

from .objects import Away
from .store import Moved, Prepared, Store, Written, store

__all__ = ("Away", "Moved", "Prepared", "Store", "Written", "store")
