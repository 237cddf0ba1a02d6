"""Processes forked from one that has TVM loaded already."""
