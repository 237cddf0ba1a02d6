"""What a target is, and what has to be loaded or installed to build for it."""
