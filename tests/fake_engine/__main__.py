"""Starts the fake engine by `python -m`, like a real one."""

from .engine import main

main()
