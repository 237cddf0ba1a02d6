"""One run on many machines: its pool, and what a machine does as a member of it."""
