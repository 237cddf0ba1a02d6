"""Objects in an S3-compatible store, by django-storages. A URL is `s3://BUCKET/KEY`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from django.core.files.base import ContentFile

SCHEME = "s3://"
CONNECT_S, ANSWER_S, ATTEMPTS = 3, 20, 2


class Away(OSError):
    """The object store can't be reached, or refuses; the message names the setting."""


def put(url: str, data: bytes) -> None:
    """Store an object. Raises `Away`."""
    bucket, key = _parts(url)
    with _answering(url):
        _storage(bucket).save(key, ContentFile(data))


def get(url: str) -> bytes:
    """An object's content. Raises `Away`, or `FileNotFoundError`."""
    bucket, key = _parts(url)
    with _answering(url), _storage(bucket).open(key) as file:
        return bytes(file.read())


def delete(url: str) -> None:
    """Delete an object, if there is one. Raises `Away`."""
    bucket, key = _parts(url)
    with _answering(url):
        _storage(bucket).delete(key)


def trouble(place: str) -> str | None:
    """Why objects can't be written, read and deleted there, in one line; None if they can."""
    name = uuid.uuid4().hex
    url = f"{place}/check-{name}"
    try:
        put(url, b"Tuneboard writes, reads and deletes this to see whether it can.")
        get(url)
        delete(url)
    except OSError as error:
        return str(error).replace(name, "…")  # What stays the same is said once.
    return None


@contextmanager
def _answering(url: str) -> Iterator[None]:
    """What goes wrong there in our words, which have no credentials."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{url} is gone from the object store.") from None
    except (BotoCoreError, Boto3Error, ClientError, ValueError) as error:
        bucket = _parts(url)[0]
        text = " ".join(str(error).split())
        raise Away(f"The bucket {bucket} (TUNEBOARD_STORAGE) can't be used: {text}") from error


@lru_cache(maxsize=8)
def _storage(bucket: str) -> Any:
    """Endpoint, region and credentials are where boto looks for them."""
    from botocore.config import Config  # Only here: it takes 25 MB.
    from storages.backends.s3 import S3Storage

    config = Config(
        connect_timeout=CONNECT_S, read_timeout=ANSWER_S, retries={"total_max_attempts": ATTEMPTS, "mode": "standard"}
    )
    return S3Storage(bucket_name=bucket, file_overwrite=True, default_acl=None, client_config=config)


def _parts(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    return bucket, key
