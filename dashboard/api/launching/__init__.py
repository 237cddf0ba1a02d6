"""Launches, and the settings that they begin with."""
