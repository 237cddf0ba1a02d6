"""Files of a run as responses: named, streamed, and not sent again to who has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header

from dashboard.http.conditional import etag_of
from dashboard.presentation.downloads import stem
from tuning.models import Run
from tuning.reads.downloads import File


class Streamed(StreamingHttpResponse):
    """Takes the next piece when the client has taken the last: under ASGI Django would gather all of them first."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Thread-sensitive: all steps in the request's own thread.
        content: Any = self.streaming_content
        step: Any = sync_to_async(_next, thread_sensitive=True)
        while (piece := await step(content)) is not None:
            yield piece


def _next(pieces: Iterator[bytes]) -> bytes | None:
    """The next piece, if there is one. The connection that it took is given back: clients may take their time."""
    try:
        return next(pieces, None)
    finally:
        close_old_connections()


def response(request: HttpRequest, run: Run, file: File) -> HttpResponseBase:
    """The file as an attachment; only its head for HEAD, 304 for who has it already."""
    answer: Any = Streamed(() if request.method == "HEAD" else file.pieces, content_type=file.content_type)
    answer.headers["Content-Disposition"] = content_disposition_header(True, f"{stem(run)}_{file.name}") or ""  # noqa: FBT003
    answer.headers["Cache-Control"] = "private, no-cache"
    if file.size is not None:
        answer.headers["Content-Length"] = str(file.size)
    etag = etag_of(run, file.version)
    answer.headers["ETag"] = etag
    return get_conditional_response(request, etag=etag, response=answer) or answer
