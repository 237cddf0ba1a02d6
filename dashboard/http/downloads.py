"""Files as streamed, conditional responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
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
from tuning.reads.files import File


class Streamed(StreamingHttpResponse):
    """Generates a piece when the client has received the previous one; Django would generate all of them first under ASGI."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # Thread-sensitive: all steps run in the request's thread.
        content: Any = self.streaming_content
        step: Any = sync_to_async(_next, thread_sensitive=True)
        while (piece := await step(content)) is not None:
            yield piece


def _next(pieces: Iterator[bytes]) -> bytes | None:
    """The next piece, or None. The database connection is returned in between, since clients may be slow."""
    try:
        return next(pieces, None)
    finally:
        close_old_connections()


def response(request: HttpRequest, of: Run | Sequence[Run], file: File) -> HttpResponseBase:
    """The file of a run, or of several, as an attachment; only headers for HEAD, 304 if the client has it already."""
    runs = [of] if isinstance(of, Run) else of
    return attachment(request, file, stem(*runs), etag_of(runs[0], f"{stem(*runs)} {file.version}"))


def attachment(request: HttpRequest, file: File, begins: str, etag: str) -> HttpResponseBase:
    """Likewise for any file; `begins` begins its name."""
    answer: Any = Streamed(() if request.method == "HEAD" else file.pieces, content_type=file.content_type)
    answer.headers["Content-Disposition"] = content_disposition_header(True, f"{begins}_{file.name}") or ""  # noqa: FBT003
    answer.headers["Cache-Control"] = "private, no-cache"
    if file.size is not None:
        answer.headers["Content-Length"] = str(file.size)
    answer.headers["ETag"] = etag
    return get_conditional_response(request, etag=etag, response=answer) or answer
