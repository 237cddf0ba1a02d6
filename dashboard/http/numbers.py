"""Numbers in addresses: `<number:pk>` in routes of pages and sockets, `{number:run_id}` in those of the API."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import IntConverter

from tuning.validation import LONGEST_NUMBER


class NumberConverter(IntConverter):
    """Django's own takes numbers of any length, which no database can look up. Here nothing is found under those: 404."""

    regex = f"[0-9]{{1,{LONGEST_NUMBER}}}"


register_converter(NumberConverter, "number")
