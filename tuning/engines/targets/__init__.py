"""Resolving targets, and what must be installed or loaded to build for them."""
