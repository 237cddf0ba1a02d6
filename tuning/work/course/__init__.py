"""Stores how a run went, besides its trials."""
