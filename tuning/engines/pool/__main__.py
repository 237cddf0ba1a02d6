"""Starts the measuring process."""

from .engine import main

main()
