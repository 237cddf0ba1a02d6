"""The API of regression checks."""
