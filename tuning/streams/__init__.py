"""Runs that are measured elsewhere: scripts that send their trials, and files that others write."""
