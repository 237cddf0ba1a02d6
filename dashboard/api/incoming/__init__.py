"""Runs that somebody else tuned."""
