"""Measures candidates of a run on a machine of its pool: `python -m tuning.engines.pool`."""
