"""A disk that is small enough to be filled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHUNK = b"x" * 65536


@contextmanager
def small_disk(place: Path, mib: int) -> Iterator[Path]:
    """A tmpfs of this size. Where none can be mounted the test is skipped; in CI it fails."""
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = f"NO DISK WAS FILLED: mounting one needs root: {done.stderr.strip()}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Leaves not a byte free while inside."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(CHUNK) == len(CHUNK):
                pass
        except OSError:
            pass
    yield
    (disk / "filler").unlink()
