"""Kinds of parameters in addresses: `<number:pk>` and `<name:name>` in routes of pages and sockets, `{number:run_id}` in those of the API."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import IntConverter, StringConverter

from tuning.validation import LONGEST_NUMBER


class NumberConverter(IntConverter):
    """Django's own takes numbers of any length, which no database can look up. Here nothing is found under those: 404."""

    regex = f"[0-9]{{1,{LONGEST_NUMBER}}}"


class NameConverter(StringConverter):
    """Django's own takes NUL characters, which PostgreSQL refuses. Here nothing is found under a name that has one: 404."""

    regex = r"[^/\x00]+"


register_converter(NumberConverter, "number")
register_converter(NameConverter, "name")
