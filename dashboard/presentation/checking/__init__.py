"""Regression checks: their words, charts and badges."""
