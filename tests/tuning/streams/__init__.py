"""Runs that are measured elsewhere."""
