"""Starts the engine."""

from .engine import main

main()
