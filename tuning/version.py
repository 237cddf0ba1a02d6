"""The version of Tuneboard."""

VERSION = "0.1.0.dev0"
"""The one in pyproject.toml, which installations don't have."""
