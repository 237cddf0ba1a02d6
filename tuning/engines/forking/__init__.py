"""Forks processes from one that has TVM loaded."""
