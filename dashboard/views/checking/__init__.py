"""Regression checks: their pages, and the badge that anybody sees who has its address."""
