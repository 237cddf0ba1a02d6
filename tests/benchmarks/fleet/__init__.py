"""Benchmarks of runs over many machines."""
