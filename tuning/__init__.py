"""The domain: runs, what tunes them, and what records them."""
