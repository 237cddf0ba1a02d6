"""Starts it, as `python -m` does with a real engine."""

from .engine import main

main()
