"""Runs that somebody else tuned: from files."""
