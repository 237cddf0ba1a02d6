"""Regression checks: what users ask of them, and how they are done when they are due."""
