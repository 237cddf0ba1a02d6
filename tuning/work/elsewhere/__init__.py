"""Runs that others tune while the site looks on."""
