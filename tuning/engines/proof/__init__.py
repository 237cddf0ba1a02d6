"""When two libraries count as equal, and how they are measured in turn. Any TVM's processes use it, so it is Python 3.6 and numpy."""
